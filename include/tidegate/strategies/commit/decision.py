"""What a group's positions can mean for an open batch."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Resume:
    """Nothing stands in the way of whatever is left of the batch."""


@dataclass(frozen=True, slots=True)
class ResumeFrom:
    """Part of the batch was committed by ourselves: what is left of it begins at these positions."""

    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """The offsets are committed, which the ledger doesn't know yet, and the output is still to be made."""


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """The batch was committed, output and all, and only the ledger doesn't know it yet."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """Somebody else moved the group; the batch can't be committed any more."""

    reason: str


Decision = Resume | ResumeFrom | OffsetsCommitted | AlreadyCommitted | Abandon
