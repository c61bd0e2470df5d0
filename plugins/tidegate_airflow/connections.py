"""Airflow's connections, as a task finds them: environment, secrets backends, the metadata database."""

from typing import Any

from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security.secret_values import secret_values


class AirflowConnections:
    """The port `Connections` inside a running task, whose log hides every secret of what was found."""

    def get(self, connection_id: str) -> Connection:
        """The connection of this id. Raises WrongDefinitionError if there is none."""
        try:
            found = BaseHook.get_connection(connection_id)
        except AirflowNotFoundException:
            raise missing(connection_id) from None
        return of_airflow(connection_id, found)


class DatabaseConnections:
    """The port `Connections` inside Airflow's commands and its API server, which use its database, and are no tasks."""

    def get(self, connection_id: str) -> Connection:
        """See AirflowConnections. Raises UnavailableError where Airflow's database doesn't answer."""
        from airflow.models.connection import Connection as OfDatabase  # noqa: PLC0415 (tasks have no models)

        from tidegate_airflow.pools import pool_names  # noqa: PLC0415 (see above)

        try:
            found = OfDatabase.get_connection_from_secrets(connection_id)
        except AirflowNotFoundException:
            pool_names()  # raises where the database was only away, which Airflow doesn't tell apart
            raise missing(connection_id) from None
        return of_airflow(connection_id, found)


def missing(connection_id: str) -> WrongDefinitionError:
    """What is raised where there is no connection of this id."""
    return WrongDefinitionError(
        f"there is no Airflow connection {connection_id}: create it under Admin, Connections, "
        f"or set AIRFLOW_CONN_{connection_id.upper()}"
    )


def of_airflow(connection_id: str, found: Any) -> Connection:
    """A connection of Airflow's as the engine reads it; from here on this process's log hides its secrets."""
    connection = Connection(
        id=connection_id,
        type=found.conn_type,
        host=found.host,
        port=found.port,
        login=found.login,
        password=found.password,
        extra=found.extra_dejson,
        schema=found.schema,
    )
    for value in secret_values(connection):  # Airflow itself knows passwords, and extras by their names alone
        mask_secret(value)
    return connection
