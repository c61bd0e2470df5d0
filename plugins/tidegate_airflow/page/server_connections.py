"""Airflow's connections as the API server finds them: environment, secrets backends, the metadata database."""

from airflow.exceptions import AirflowNotFoundException
from airflow.models.connection import Connection as AirflowConnection

from tidegate.ports import Connection
from tidegate_airflow.connections import missing, of_airflow


class ServerConnections:
    """The port `Connections` inside the API server, which isn't a task."""

    def get(self, connection_id: str) -> Connection:
        """The connection of this id. Raises WrongDefinitionError if there is none."""
        try:
            return of_airflow(connection_id, AirflowConnection.get_connection_from_secrets(connection_id))
        except AirflowNotFoundException:
            raise missing(connection_id) from None
