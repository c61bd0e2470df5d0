"""Plan: find out where things stand, wait for records, and freeze what the batch takes."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.batch import Batch, State
from tidegate.commits.after_processing import Abandon, AfterProcessing, GoOn, Note
from tidegate.errors import BrokerUnavailableError, LostDataError, StaleError, place
from tidegate.ports import Clock, Committed, Lake, Ledger, OffsetStore, RecordSource
from tidegate.positions import Range, TopicPartition, Watermarks, assign, split_cap
from tidegate.receipt import Receipt
from tidegate.steps.anchor import Anchorage, anchorage, missing_topics, offsets_of
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Plan:
    """What the run is to do: a batch and the members that land it, or nothing, and why."""

    batch: Batch | None
    members: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans batches of one subscription whose output is `output` (an absolute URI)."""

    subscription: Subscription
    output: str
    source: RecordSource
    offsets: OffsetStore
    ledger: Ledger
    lake: Lake
    clock: Clock

    def plan(self) -> Plan:
        """The open batch, if it can go on; else a new one; else nothing, after the poll timeout.

        A broker that can't be reached within the poll timeout is an empty poll.
        """
        deadline = self.clock.monotonic() + self.subscription.poll_timeout_ms / 1000
        while True:
            try:
                planned = self._attempt(deadline)
            except BrokerUnavailableError as away:
                if self.clock.monotonic() >= deadline:
                    return self._nothing(f"the broker can't be reached ({away}); the next run tries again")
                self.clock.wait(_POLL_SECONDS)
                continue
            if planned is not None:
                return planned

    def _attempt(self, deadline: float) -> Plan | None:
        """One look at ledger and Kafka; None if that changed something and it takes another look."""
        glance = self.ledger.look(self.subscription.name)
        if glance.open is not None:
            return self._reconcile(glance.open)
        partitions = self.source.partitions(self.subscription.topics)
        self._note_missing(partitions, glance.missing)
        if not partitions:
            return self._wait_or_nothing(deadline, "none of the topics exists yet")
        committed = self.offsets.committed(partitions)
        at = anchorage(
            self.subscription,
            partitions,
            committed,
            missing=glance.missing,
            last_ends=self.ledger.last_ends(self.subscription.name, self.subscription.consumer.group_id),
        )
        if at.unanchored:
            self._anchor(at, partitions, committed)
            return None
        marks = self.source.watermarks(partitions)
        starts = self._inside({tp: committed[tp].offset for tp in partitions}, marks, at.receipt)
        if starts is None:
            return None
        if not any(marks[tp].end > starts[tp] for tp in partitions):
            return self._wait_or_nothing(deadline, "there is nothing to read")
        return self._open(self._freeze(at.receipt, starts, marks), glance.version)

    def _reconcile(self, batch: Batch) -> Plan | None:
        committed = self.offsets.committed([r.at for r in batch.ranges])
        match AfterProcessing().reconcile(batch, committed):
            case GoOn():
                log.info("%s is open (%s): it is delivered again", batch, batch.state)
                return Plan(batch, batch.members_with_work() or (0,), f"{batch.state} batch goes on")
            case Note():
                log.info("%s was committed, which the ledger didn't know: it is noted", batch)
                self.ledger.move(batch.id, State.COMMITTED)
                return None
            case Abandon(reason):
                log.warning("%s is abandoned: %s", batch, reason)
                self.lake.set_aside(batch.output, batch.id)
                self.ledger.move(batch.id, State.ABANDONED, reason)
                return None

    def _note_missing(self, partitions: Sequence[TopicPartition], known: frozenset[str]) -> None:
        missing = missing_topics(self.subscription.topics, {tp.topic for tp in partitions}) - known
        if missing:
            log.warning(
                "%s: no such topic yet: %s; once there, it is read from its earliest record",
                place(subscription=self.subscription.name),
                ", ".join(sorted(missing)),
            )
            self.ledger.note_missing(self.subscription.name, missing)

    def _anchor(
        self,
        at: Anchorage,
        partitions: Sequence[TopicPartition],
        seen: Mapping[TopicPartition, Committed],
    ) -> None:
        """Commit the starts that aren't committed yet, or `latest` would lose what arrives until the next poll."""
        positions = offsets_of(at.unanchored, self.source)
        with self.offsets.fence() as fence:
            if fence.committed(partitions) != seen:
                raise StaleError(f"{self._place}: somebody moved the group while its start was determined; run again")
            fence.commit(positions, str(at.receipt))
        said = ", ".join(f"{tp} at {offset}" for tp, offset in sorted(positions.items()))
        log.info("%s: anchored %s (%s)", self._place, said, at.why)

    def _inside(
        self, starts: dict[TopicPartition, int], marks: Mapping[TopicPartition, Watermarks], receipt: Receipt
    ) -> dict[TopicPartition, int] | None:
        """The starts, if each lies in what its partition holds; None after moving those that don't.

        With `on-data-loss: fail` the first one that doesn't raises LostDataError.
        """
        outside = {tp: marks[tp] for tp, at in starts.items() if not marks[tp].earliest <= at <= marks[tp].end}
        if not outside:
            return starts
        for tp, held in outside.items():
            message = (
                f"{place(subscription=self.subscription.name, group=self.subscription.consumer.group_id)}, "
                f"{place(topic=tp.topic, partition=tp.partition, offset=starts[tp])}: the committed position is "
                f"outside of what the partition holds, [{held.earliest}, {held.end})"
            )
            if self.subscription.on_data_loss == "fail":
                raise LostDataError(
                    f"{message}; records are lost. Set on-data-loss: reset to go on at the earliest record, "
                    "or reset the group"
                )
            log.error("%s; it goes on at %d (on-data-loss: reset)", message, held.earliest)
        with self.offsets.fence() as fence:
            fence.commit({tp: held.earliest for tp, held in outside.items()}, str(receipt))
        return None

    def _freeze(
        self,
        receipt: Receipt,
        starts: Mapping[TopicPartition, int],
        marks: Mapping[TopicPartition, Watermarks],
    ) -> Batch:
        """The batch that begins at these starts: what the lake holds of it, or as much as the cap lets it take."""
        subscription = self.subscription
        group = subscription.consumer.group_id
        batch_id = receipt.batch_after(subscription.name, group)
        published = self.lake.published(self.output, batch_id)
        if published is not None:
            log.warning("batch %s is in the lake already: its published ranges are taken", batch_id)
            ranges = published.ranges
        else:
            lags = {tp: marks[tp].end - start for tp, start in starts.items()}
            shares = split_cap(subscription.consumer.max_poll_records, lags, turn=receipt.number)
            ranges = tuple(
                Range(tp.topic, tp.partition, start, start + shares.get(tp, 0)) for tp, start in sorted(starts.items())
            )
        return Batch(
            id=batch_id,
            subscription=subscription.name,
            group=group,
            receipt=receipt,
            ranges=ranges,
            shares=assign([r.at for r in ranges], subscription.members),
            output=self.output,
            partition_by=subscription.processing.partition_by,
        )

    def _open(self, batch: Batch, version: str) -> Plan:
        batch = self.ledger.open(batch, version)
        taken = [r for r in batch.ranges if not r.is_empty]
        log.info("%s: planned %s", batch, ", ".join(map(str, taken)))
        return Plan(batch, batch.members_with_work(), f"{sum(r.end - r.start for r in taken)} offsets planned")

    def _wait_or_nothing(self, deadline: float, why: str) -> Plan | None:
        if self.clock.monotonic() >= deadline:
            return self._nothing(why)
        self.clock.wait(_POLL_SECONDS)
        return None

    def _nothing(self, why: str) -> Plan:
        log.info("%s: no batch: %s", self._place, why)
        return Plan(None, (), why)

    @property
    def _place(self) -> str:
        return place(subscription=self.subscription.name, group=self.subscription.consumer.group_id)
