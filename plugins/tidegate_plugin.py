"""What Airflow loads of Tidegate from the plugins folder; the package beside it is imported by the DAG files."""

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin


class TidegatePlugin(AirflowPlugin):
    """Registers Tidegate with Airflow."""

    name: ClassVar[str] = "tidegate"
