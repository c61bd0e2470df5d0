"""What Airflow loads of Tidegate from the plugins folder; the package beside it is imported by the DAG files."""

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from tidegate_airflow import preloading


class TidegatePlugin(AirflowPlugin):
    """Registers Tidegate with Airflow."""

    name: ClassVar[str] = "tidegate"
    listeners: ClassVar[list[Any]] = [preloading]
