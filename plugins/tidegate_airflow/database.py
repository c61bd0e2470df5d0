"""Airflow's own database, for the API server and Airflow's commands: a task has no access to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.utils.session import create_session
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tidegate.model.errors import UnavailableError


@contextmanager
def airflow_database() -> Iterator[Session]:
    """A session of it. Raises UnavailableError where it doesn't answer."""
    try:
        with create_session() as session:
            yield session
    except SQLAlchemyError as error:
        raise UnavailableError(
            f"Airflow's database doesn't answer ({type(error).__name__}): see `airflow db check`"
        ) from error
