"""A group as it is now: who is in it, and for each partition where it stands and who has it.

Kafka's own view, and OCI Streaming's: a committed offset there is that of the last record that was read, and an
instance has a partition reserved for a time.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidegate.model.batch import Batch, State
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.selection import visible_partitions
from tidegate.steps.starts import starts_without_position


@dataclass(frozen=True, slots=True)
class Reservation:
    """The member of the open batch that has a partition; `until` is the delivery's deadline, None before one began."""

    member: int
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition of the group: its position with what was committed beside it, and what the partition holds.

    `start` is where the next run begins without a position; None where it would refuse to.
    """

    at: TopicPartition
    position: Committed | None
    held: Watermarks
    reservation: Reservation | None = None
    start: int | None = None

    @property
    def lag(self) -> int | None:
        """The offsets from where the next run begins to the end; None where it would refuse to begin."""
        begins = self.position.offset if self.position else self.start
        return None if begins is None else self.held.behind(begins)

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the position; None where it isn't ours."""
        return Receipt.parse(self.position.metadata) if self.position else None

    def to_json(self) -> dict[str, Any]:
        """As `tidegate group describe --json` prints it."""
        reserved, receipt = self.reservation, self.receipt
        return {
            "topic": self.at.topic,
            "partition": self.at.partition,
            "committed": self.position.offset if self.position else None,
            "log_start": self.held.earliest,
            "log_end": self.held.end,
            "lag": self.lag,
            "metadata": self.position.metadata if self.position else None,
            "committed_by": None if self.position is None else ("tidegate" if receipt else "somebody else"),
            "batch_id": receipt.batch_id if receipt else None,
            "oci": {
                "partition": str(self.at.partition),
                "committedOffset": self.position.offset - 1 if self.position and self.position.offset else None,
                "reservedInstance": f"member-{reserved.member}" if reserved else None,
                "timeReservedUntil": reserved.until.isoformat() if reserved and reserved.until else None,
            },
        }


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A subscription's group: its store of positions, its cluster, live members, the open batch and each partition."""

    subscription: str
    group: str
    store: str
    cluster_id: str | None
    members: tuple[str, ...]
    open: Batch | None
    partitions: tuple[PartitionDescription, ...]

    @property
    def lag(self) -> int | None:
        """That of all partitions together; None where that of one isn't known."""
        lags = [each.lag for each in self.partitions]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    def to_json(self) -> dict[str, Any]:
        """As `tidegate group describe --json` prints it."""
        return {
            "subscription": self.subscription,
            "group": self.group,
            "store": self.store,
            "cluster_id": self.cluster_id,
            "members": list(self.members),
            "open": {"batch_id": self.open.id, "state": self.open.condition} if self.open else None,
            "lag": self.lag,
            "partitions": [each.to_json() for each in self.partitions],
        }


def describe_group(pipeline: Pipeline) -> GroupDescription:
    """Ask Kafka and the ledger; nothing is changed. Raises UnavailableError where either doesn't answer."""
    subscription, source = pipeline.subscription, pipeline.source
    snapshot = pipeline.ledger.look(subscription.name)
    batch = snapshot.open
    partitions = visible_partitions(subscription, source)
    committed = pipeline.offsets.committed(partitions)
    starts = starts_without_position(pipeline, snapshot, partitions, committed)
    marks = source.watermarks(partitions)  # last, so that no position is beyond the end
    until = _deadline(pipeline, batch) if batch else None
    reserved = {
        at: Reservation(member, until) for member, share in enumerate(batch.shares if batch else ()) for at in share
    }
    return GroupDescription(
        subscription=subscription.name,
        group=subscription.consumer.group_id,
        store=subscription.commit_policy.store,
        cluster_id=source.cluster_id(),
        members=pipeline.offsets.members(),
        open=batch,
        partitions=tuple(
            PartitionDescription(at, committed.get(at), marks[at], reserved.get(at), starts.get(at))
            for at in partitions
        ),
    )


def _deadline(pipeline: Pipeline, batch: Batch) -> datetime | None:
    """Until when the delivery that is under way may take, by the ledger's clock; None where it may take any time."""
    if batch.state is not State.PROCESSING or batch.delivery is None or not batch.commit_policy.enforces_deadline:
        return None
    begun = pipeline.ledger.now() - pipeline.ledger.delivery_age(batch.id, batch.delivery.token).begun
    return begun + timedelta(milliseconds=pipeline.subscription.consumer.max_poll_interval_ms)
