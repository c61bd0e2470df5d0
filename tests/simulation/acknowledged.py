"""Stand-ins for acknowledgements that are being gathered: those change, and what a runner was answered mustn't."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from tidegate.model.acknowledged import Acknowledgements, Offsets
from tidegate.model.offsets import TopicPartition

Told = tuple[tuple[TopicPartition, tuple[int, ...]], ...]
"""The offsets of each partition."""


def told(gathered: Mapping[TopicPartition, Acknowledgements]) -> Told:
    """The landed offsets that acknowledgements are awaited for."""
    return tuple((at, tuple(one.now().landed.tolist())) for at, one in gathered.items())


def pending_acks(landed: Told) -> dict[TopicPartition, Acknowledgements]:
    """Nothing acknowledged yet of these offsets."""
    return {at: Acknowledgements(at, _offsets(ones)) for at, ones in landed}


@dataclass(frozen=True, slots=True)
class Settled:
    """What one file of settled records names."""

    offsets: Told

    @classmethod
    def taken(
        cls, take: Callable[[str, Mapping[TopicPartition, "Noted"]], None], file: str, into: Iterable[TopicPartition]
    ) -> Self:
        """What `take` would enter for these partitions."""
        noted: dict[TopicPartition, Noted] = {at: Noted() for at in into}
        take(file, noted)
        return cls(tuple((at, tuple(one.offsets)) for at, one in noted.items() if one.offsets))

    def enter(self, into: Mapping[TopicPartition, Acknowledgements]) -> None:
        """Enter it."""
        for at, ones in self.offsets:
            into[at].add(_offsets(ones))


class Noted:
    """Takes what Acknowledgements would."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def add(self, offsets: Offsets) -> None:
        """Note them."""
        self.offsets += offsets.tolist()


def _offsets(ones: Iterable[int]) -> Offsets:
    return np.array(tuple(ones), np.int64)
