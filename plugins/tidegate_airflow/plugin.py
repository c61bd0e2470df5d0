"""What Airflow loads of Tidegate as a plugin, by its entry point."""

from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from tidegate_airflow import import_from_dags_folder, preloading, run_notes


class TidegatePlugin(AirflowPlugin):  # type: ignore[misc]  # Airflow's types aren't followed
    """Registers Tidegate with Airflow."""

    name: ClassVar[str] = "tidegate"
    listeners: ClassVar[list[Any]] = [preloading, run_notes]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The page and subscriptions by REST, which the API server alone asks for; the longer prefix comes first."""
        from tidegate_airflow.page.app import PREFIX, page_app  # noqa: PLC0415 (the API server alone needs it)
        from tidegate_airflow.rest.app import rest_app  # noqa: PLC0415 (see above)

        import_from_dags_folder()
        return [
            {"app": page_app(), "url_prefix": PREFIX, "name": "tidegate page"},
            {"app": rest_app(), "url_prefix": "/tidegate", "name": "tidegate"},
        ]

    @property
    def external_views(self) -> list[dict[str, Any]]:
        """The page in Airflow's navigation, and a tab of each DAG."""
        page = f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}/tidegate/page"
        return [
            {"name": "Tidegate", "href": f"{page}/", "destination": "nav", "url_route": "tidegate"},
            {
                "name": "Tidegate",
                "href": f"{page}/subscriptions/{{DAG_ID}}",
                "destination": "dag",
                "url_route": "tidegate-subscription",
            },
        ]
