"""The folder and the environment of a private Airflow: nothing of it is shared with any other Airflow."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_local.loopback import HOST
from tidegate_local.secret_files import drawn_once

USER = "admin"
_PASSWORDS = "passwords.json"

Connection = Mapping[str, str | int | Mapping[str, str]]


@dataclass(frozen=True)
class AirflowHome:
    """Where a private Airflow keeps what it writes, and where it finds DAGs and plugins; all paths absolute."""

    folder: Path
    dags: Path
    plugins: Path
    port: int

    @property
    def url(self) -> str:
        """The address of the UI and the REST API."""
        return f"http://{HOST}:{self.port}"

    def password(self) -> str:
        """Return the password of USER, drawn at first use and kept in a file that only its owner can read."""
        kept = drawn_once(self.folder / _PASSWORDS, lambda: json.dumps({USER: secrets.token_urlsafe(12)}))
        return str(json.loads(kept)[USER])

    def settings(self) -> dict[str, str]:
        """Return Airflow's settings as environment variables."""
        return {
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.plugins),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.folder / _PASSWORDS),
            # a scheduler that waits in vain ends, and 5 s pass by on a machine whose cores are all taken
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder / 'airflow.db'}?timeout=60",
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            # tasks that a killed scheduler left behind start again soon, not after five minutes
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",  # as above
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    def environment(self, around: Mapping[str, str], connections: Mapping[str, Connection]) -> dict[str, str]:
        """Return the environment of Airflow's processes: the one around; of Airflow's settings ours and Tidegate's.

        `connections` are by connection id, each with Airflow's own names: conn_type, host, port, extra. They go in as
        JSON, because a URI can't say all of them.
        """
        kept = {
            name: value
            for name, value in around.items()
            if not name.startswith("AIRFLOW__") or name.startswith("AIRFLOW__TIDEGATE__")
        }
        given = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(connection) for name, connection in connections.items()}
        return kept | self.settings() | given
