"""The offset stores of runs that commit nothing, one for each run, as a part of the world that can be gone back to."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, Fence
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTopics


class UnkeptStores:
    """The stores by the run that each belongs to, and the outbox that all of them produce to."""

    def __init__(self, topics: MemoryTopics | None = None) -> None:
        self.outbox = MemoryOutbox(topics)
        self.stores: dict[str, NullOffsetStore] = {}

    def of(self, run: str) -> "OwnStore":
        """The port `OffsetStore` of one run."""
        return OwnStore(self, run)

    def store(self, run: str) -> NullOffsetStore:
        """What the run's store remembers now."""
        return self.stores.setdefault(run, NullOffsetStore(self.outbox))


class OwnStore:
    """The store of one run, wherever the world was brought back to; it is its own fence, as NullOffsetStore is."""

    durable = NullOffsetStore.durable

    def __init__(self, stores: UnkeptStores, run: str) -> None:
        self._stores = stores
        self._run = run

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.OffsetStore`."""
        return self._stores.store(self._run).committed(partitions)

    def members(self) -> tuple[str, ...]:
        """See `tidegate.ports.OffsetStore`."""
        return self._stores.store(self._run).members()

    def state(self) -> str | None:
        """See `tidegate.ports.OffsetStore`; none is kept."""
        return self._stores.store(self._run).state()

    @contextmanager
    def fence(self) -> Iterator[Fence]:
        """See `tidegate.ports.OffsetStore`."""
        with self._stores.store(self._run).fence():
            yield self

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """See `tidegate.ports.Fence`."""
        self._stores.store(self._run).commit(offsets, metadata, leader_epochs, outgoing, state)
