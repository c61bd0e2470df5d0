"""Plan: find out where things stand, wait for records, and freeze what the batch takes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tidegate.batch import SETTLED, Batch
from tidegate.commits.chosen import COMMIT_STRATEGIES
from tidegate.commits.strategy import Moment
from tidegate.errors import BrokerUnavailableError, StaleError, place
from tidegate.ports import Clock, Glance, Lake, Landing, Ledger, OffsetStore, RecordSource
from tidegate.positions import Range, TopicPartition
from tidegate.steps.anchor import missing_names
from tidegate.steps.commit import Committer
from tidegate.steps.freeze import batch_of, freeze
from tidegate.steps.reconcile import Reconciler
from tidegate.steps.selection import partitions_of
from tidegate.steps.standing import Stander, Standing, Unfinished
from tidegate.steps.sweep import sweep
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_RECOMMIT_AFTER = timedelta(days=1)  # brokers forget an idle group's offsets after seven days, unless told otherwise


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
    landing: Landing
    ledger: Ledger
    lake: Lake
    clock: Clock
    committer: Committer

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
        partitions = partitions_of(self.subscription, self.source)
        self._note_missing(partitions, glance.missing)
        if not partitions:
            return self._wait_or_nothing(deadline, "none of the topics exists yet")
        match self._stander.stand(partitions, glance):
            case None:
                return None
            case Unfinished() as unfinished:
                self._take(unfinished, glance)
                return None
            case Standing(has_records=True) as standing:
                return self._open(freeze(self.subscription, self.output, standing), standing, glance)
            case standing:
                planned = self._wait_or_nothing(deadline, "there is nothing to read")
                if planned is not None:
                    self._look_after(standing, glance)
                return planned

    def _reconcile(self, batch: Batch) -> Plan | None:
        reconciler = Reconciler(self.subscription, self.source, self.offsets, self.ledger, self.lake)
        again = reconciler.reconcile(batch)
        if again is None:
            return None
        if again.awaits_commit:
            match COMMIT_STRATEGIES[again.commit_strategy].moment:
                case Moment.ON_NEXT_PLAN:
                    self.committer.commit(again.id)
                    return None
                case Moment.BY_HAND:
                    name = self.subscription.name
                    return self._nothing(f"batch {again.id} is {again.state} and waits for `tidegate commit {name}`")
                case _:
                    pass
        return Plan(again, again.members_with_work() or (0,), f"{again.state} batch goes on")

    def _take(self, unfinished: Unfinished, glance: Glance) -> None:
        """The ledger lost a batch after it was published: it is opened as the lake has it, to be committed."""
        batch = batch_of(self.subscription, self.output, unfinished.receipt, unfinished.published.ranges)
        if self._was_committed(batch.id):
            published = unfinished.published
            self._stander.forward(batch.id, unfinished.receipt, published.ranges, published.state)
            return
        log.warning("%s is in the lake and the ledger doesn't know it: its commit is finished", batch)
        self.ledger.open(batch, glance.version, unfinished.published)

    def _was_committed(self, batch_id: str) -> bool:
        try:
            return self.ledger.batch(batch_id).state in SETTLED
        except StaleError:
            return False

    def _note_missing(self, partitions: Sequence[TopicPartition], known: frozenset[str]) -> None:
        existing = {tp for tp in partitions if tp.topic not in self.subscription.retry_topics}
        missing = missing_names(self.subscription.topics, existing) - known
        if missing:
            log.warning(
                "%s: no such topic or partition yet: %s; once there, it is read from its %s",
                place(subscription=self.subscription.name),
                ", ".join(sorted(missing)),
                "earliest record" if self.offsets.lasting else "cursor",
            )
            self.ledger.note_missing(self.subscription.name, missing)

    def _open(self, batch: Batch, standing: Standing, glance: Glance) -> Plan | None:
        try:
            batch = self.ledger.open(batch, glance.version)
        except StaleError:
            settled = self._settled_ahead(batch, standing)
            if not settled:
                raise
            self._stander.forward(batch.id, batch.receipt, settled)
            return None
        taken = [r for r in batch.ranges if not r.is_empty]
        if batch.receipt.batch_id is not None and self.subscription.has_cursors:
            log.info("%s: the group has committed and goes on from there: cursor and assign-seek are ignored", batch)
        log.info("%s: planned %s", batch, ", ".join(map(str, taken)))
        return Plan(batch, batch.members_with_work(), f"{sum(r.end - r.start for r in taken)} offsets planned")

    def _settled_ahead(self, batch: Batch, standing: Standing) -> tuple[Range, ...]:
        """The ranges of a batch that is settled and not in the lake, if the group still stands before or within."""
        if not self._was_committed(batch.id) or self.offsets.committed(standing.committed) != standing.committed:
            return ()
        ranges = tuple(r for r in self.ledger.batch(batch.id).ranges if r.at in standing.committed)
        is_before = all(standing.committed[r.at].offset >= r.start for r in ranges)
        return ranges if is_before else ()

    def _look_after(self, standing: Standing, glance: Glance) -> None:
        """What a run without records is good for: committing what would expire, sweeping behind a crash."""
        since = None if glance.committed_at is None else self.clock.now() - glance.committed_at
        if self.offsets.lasting and (since is None or since >= _RECOMMIT_AFTER):
            self._stander.recommit(standing, glance.version)
        name = self.subscription.name
        sweep(name, self.output, 1, landing=self.landing, lake=self.lake, ledger=self.ledger)

    def _wait_or_nothing(self, deadline: float, why: str) -> Plan | None:
        left = deadline - self.clock.monotonic()
        if left <= 0:
            return self._nothing(why)
        self.clock.wait(min(_POLL_SECONDS, left))
        return None

    def _nothing(self, why: str) -> Plan:
        log.info("%s: no batch: %s", self._place, why)
        return Plan(None, (), why)

    @property
    def _stander(self) -> Stander:
        return Stander(self.subscription, self.output, self.source, self.offsets, self.ledger, self.lake, self.clock)

    @property
    def _place(self) -> str:
        return place(subscription=self.subscription.name, group=self.subscription.consumer.group_id)
