"""Airflow's connections, as a task finds them: environment, secrets backends, the metadata database."""

from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook

from tidegate.errors import WrongDefinitionError
from tidegate.ports import Connection


class AirflowConnections:
    """The port `Connections` inside a running task."""

    def get(self, connection_id: str) -> Connection:
        """The connection of this id. Raises WrongDefinitionError if there is none."""
        try:
            found = BaseHook.get_connection(connection_id)
        except AirflowNotFoundException:
            raise WrongDefinitionError(
                f"there is no Airflow connection {connection_id}: create it under Admin, Connections, "
                f"or set AIRFLOW_CONN_{connection_id.upper()}"
            ) from None
        return Connection(
            id=connection_id,
            type=found.conn_type,
            host=found.host,
            port=found.port,
            login=found.login,
            password=found.password,
            extra=found.extra_dejson,
        )
