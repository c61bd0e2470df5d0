"""The committed offsets of one consumer group, and the fence that guards their commit."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType, TracebackType
from typing import Self

from confluent_kafka import KafkaError

from tidegate.kafka.group import FORBIDDEN, IN_USE, PASSING, RIGHTS, Group, refuse_state, to_commit
from tidegate.kafka.outbox import KafkaOutbox
from tidegate.kafka.producing import peek
from tidegate.model.errors import (
    OWN_GROUP,
    CommitFailedError,
    CommitUnknownError,
    GroupInUseError,
    UnavailableError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.model.subscription import Scalar
from tidegate.ports import Committed, Fence

_PAUSE_SECONDS = 0.1


class PlainFence:
    """The fence of `commit-fence: none`, for clusters without transactions: it compares and can't lock.

    It makes sure that the group is empty when it is taken, and the broker makes sure again when it commits. A
    second committer that comes between a comparison and a commit isn't noticed, and a commit that is refused
    for some partitions stands for the others.
    """

    def __init__(self, group: Group, timeout: float) -> None:
        self._group = group
        self._timeout = timeout

    def __enter__(self) -> Self:
        self._group.refuse_members(self._timeout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.Fence`."""
        return self._group.committed(partitions, self._timeout)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """See `tidegate.ports.Fence`; returns or raises within the commit timeout.

        Only refusals that pass by themselves (a coordinator that loads or moves) are tried again, within it.
        """
        refuse_state(state, self._group.id)
        deadline = time.monotonic() + self._timeout
        self._send(outgoing, deadline)
        wanted = to_commit(offsets, metadata, leader_epochs)
        refused = self._group.commit(wanted, deadline - time.monotonic())
        while refused:
            codes = {error.code() for error in refused.values()}
            if codes & IN_USE:
                raise GroupInUseError(
                    message(
                        "live members joined while the batch was committed, and nothing is committed while there are "
                        "any",
                        location(group=self._group.id),
                        OWN_GROUP,
                    )
                )
            if codes & FORBIDDEN:
                raise WrongDefinitionError(_describe(self._group.id, offsets, refused, RIGHTS))
            if codes - PASSING:
                raise CommitFailedError(_describe(self._group.id, offsets, refused, "mend the cause and run again"))
            if time.monotonic() + _PAUSE_SECONDS >= deadline:
                later = "it may still be carried out: the next run finds out"
                raise CommitUnknownError(_describe(self._group.id, offsets, refused, later))
            time.sleep(_PAUSE_SECONDS)
            try:
                refused = self._group.commit(wanted, deadline - time.monotonic())
            except UnavailableError as error:  # the try before this one may still be carried out
                raise CommitUnknownError(
                    message(error, remedy="the next run finds out whether it was carried out")
                ) from error

    def _send(self, outgoing: Iterable[Outgoing], deadline: float) -> None:
        """Produce the records, unless there are live members: then nothing would be committed behind them."""
        records = peek(outgoing)
        if records is None:
            return
        self._group.refuse_members(deadline - time.monotonic())
        outbox = KafkaOutbox(self._group.client, deadline - time.monotonic())
        try:
            outbox.send(records)
        finally:
            outbox.close()


TakeFence = Callable[[Group, float], AbstractContextManager[Fence]]


class KafkaOffsets:
    """The port `OffsetStore` on a real cluster, for one group that nobody joins.

    `client` is librdkafka's configuration, addresses and credentials included; `poll_timeout` bounds reading
    positions, `commit_timeout` each question and the commit under a fence; both in seconds. `take_fence` is
    the kind of fence. Connects when it is first used. A broker that can't be reached raises UnavailableError.
    """

    def __init__(
        self,
        client: Mapping[str, Scalar],
        *,
        group: str,
        poll_timeout: float,
        commit_timeout: float,
        take_fence: TakeFence = PlainFence,
    ) -> None:
        self._group = Group(client, group)
        self._poll_timeout = poll_timeout
        self._commit_timeout = commit_timeout
        self._take_fence = take_fence

    durable = True

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.OffsetStore`; offsets of a transaction that is under way are waited for."""
        return self._group.committed(partitions, self._poll_timeout)

    def members(self) -> tuple[str, ...]:
        """See `tidegate.ports.OffsetStore`; asked within the poll timeout."""
        return self._group.members(self._poll_timeout)

    def state(self) -> str | None:
        """See `tidegate.ports.OffsetStore`; Kafka keeps none."""
        return None

    def fence(self) -> AbstractContextManager[Fence]:
        """See `tidegate.ports.OffsetStore`; taken when its context is entered."""
        return self._take_fence(self._group, self._commit_timeout)

    def close(self) -> None:
        """Disconnect; given up after 30 seconds, with a warning."""
        self._group.close()


def _describe(
    group: str, offsets: Mapping[TopicPartition, int], refused: Mapping[TopicPartition, KafkaError], remedy: str
) -> str:
    each = "; ".join(
        message(f"{error.str()} ({error.name()})", location(topic=tp.topic, partition=tp.partition, offset=offsets[tp]))
        for tp, error in sorted(refused.items())
    )
    fact = f"the broker refused the commit for {len(refused)} of {len(offsets)} partitions, so it doesn't count: {each}"
    return message(fact, location(group=group), remedy)
