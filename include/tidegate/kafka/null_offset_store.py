"""The positions of a run that commits nothing."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, Fence, Outbox


class NullOffsetStore:
    """The port `OffsetStore` of a run that commits nothing: it remembers the run's own start, and nothing after it."""

    durable = False

    def __init__(self, outbox: Outbox) -> None:
        self._positions: dict[TopicPartition, Committed] = {}
        self._outbox = outbox

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.OffsetStore`."""
        return {tp: self._positions[tp] for tp in partitions if tp in self._positions}

    def members(self) -> tuple[str, ...]:
        """See `tidegate.ports.OffsetStore`; there is no group."""
        return ()

    def state(self) -> str | None:
        """See `tidegate.ports.OffsetStore`; none is kept."""
        return None

    @contextmanager
    def fence(self) -> Iterator[Fence]:
        """See `tidegate.ports.OffsetStore`; there is nobody to shut out."""
        yield self

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """See `tidegate.ports.Fence`; what is outgoing is produced, and the positions are this run's alone."""
        if state is not None:
            raise AssertionError("a state is to be kept where nothing is")
        self._outbox.send(outgoing)
        self._positions |= {tp: Committed(offset, metadata, leader_epochs.get(tp)) for tp, offset in offsets.items()}
