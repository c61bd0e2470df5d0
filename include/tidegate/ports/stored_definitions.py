"""Definitions that aren't files: those that were subscribed by REST."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol


class DefinitionState(StrEnum):
    """Whether a stored definition takes new batches."""

    ACTIVE = "active"
    DRAINING = "draining"
    """It was unsubscribed: no new batch begins, the open one ends, then it is removed."""


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A definition, and how it came there.

    `text` is JSON, which YAML takes; `asked` is what its client POSTed, in the client's own terms. `revision` counts
    its changes, from 1.
    """

    name: str
    text: str
    asked: Mapping[str, Any]
    revision: int
    state: DefinitionState
    by: str
    at: datetime

    @property
    def is_draining(self) -> bool:
        """Whether it was unsubscribed."""
        return self.state is DefinitionState.DRAINING


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A line of the audit trail; `text` is what the definition said from then on, None once it was removed."""

    name: str
    what: str
    by: str
    at: datetime
    text: str | None


class StoredDefinitions(Protocol):
    """The definitions that aren't files, and who changed them when."""

    def all(self) -> tuple[StoredDefinition, ...]:
        """All of them, by name."""
        ...

    def find(self, name: str) -> StoredDefinition | None:
        """The one of this name."""
        ...

    def add(self, name: str, text: str, asked: Mapping[str, Any], by: str) -> StoredDefinition:
        """Store a new one. Raises StaleError if there is one of this name, draining or not."""
        ...

    def replace(self, name: str, text: str, asked: Mapping[str, Any], by: str, revision: int) -> StoredDefinition:
        """Store another text in the place of this revision's. Raises StaleError if there is no such revision."""
        ...

    def drain(self, name: str, by: str) -> StoredDefinition:
        """Begin no new batch of it; again is fine. Raises StaleError if there is none of this name."""
        ...

    def remove(self, name: str, by: str) -> None:
        """Remove one that was drained; one that is gone is fine. Raises StaleError for one that is active."""
        ...

    def changes(self, name: str) -> tuple[DefinitionChange, ...]:
        """The audit trail of a name, the newest first."""
        ...
