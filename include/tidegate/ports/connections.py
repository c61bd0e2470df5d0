"""Airflow's connections."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Connection:
    """An Airflow connection. Its password and extras are secrets: never print one."""

    id: str
    type: str
    host: str | None
    port: int | None
    login: str | None
    password: str | None
    extra: Mapping[str, object]
    schema: str | None = None

    def __repr__(self) -> str:
        """Name and type; nothing secret."""
        return f"Connection({self.id!r}, {self.type!r})"


class Connections(Protocol):
    """Airflow's connections."""

    def get(self, connection_id: str) -> Connection:
        """The connection of this id. Raises WrongDefinitionError if there is none."""
        ...
