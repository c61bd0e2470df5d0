"""Definitions that aren't files: those that were subscribed by REST."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


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
