"""What Airflow loads of Tidegate as a plugin, by its entry point."""

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from tidegate_airflow import preloading


class TidegatePlugin(AirflowPlugin):  # type: ignore[misc]  # Airflow's types aren't followed
    """Registers Tidegate with Airflow."""

    name: ClassVar[str] = "tidegate"
    listeners: ClassVar[list[Any]] = [preloading]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """Subscriptions by REST, which the API server alone asks for."""
        from tidegate_airflow.rest.app import rest_app  # noqa: PLC0415 (the API server alone needs it)

        return [{"app": rest_app(), "url_prefix": "/tidegate", "name": "tidegate"}]
