"""Plan: find out where things stand, wait for records, and freeze what the batch takes."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tidegate.model.batch import SETTLED, Batch
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.errors import (
    BrokerUnavailableError,
    OvertakenError,
    StaleError,
    TidegateError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock, Definitions, Lake, Landing, Ledger, LedgerSnapshot, OffsetStore, RecordSource, RunLog
from tidegate.steps.anchor import missing_names
from tidegate.steps.availability import Availability
from tidegate.steps.commit import Committer
from tidegate.steps.freeze import batch_of, freeze
from tidegate.steps.group_position import Changed, GroupPosition, PositionResolver, UncommittedPublish
from tidegate.steps.ownership import claim_group, claim_store, refuse_other_group
from tidegate.steps.produced_topics import refuse_missing_topics
from tidegate.steps.reconcile import Reconciler
from tidegate.steps.selection import partitions_of
from tidegate.steps.sweep import sweep

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_MOST_CHANGES = 12  # looks that find something to change, of which an undisturbed plan makes a few
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
    run_log: RunLog
    clock: Clock
    committer: Committer
    definitions: Definitions
    elsewhere: OffsetStore | None = None

    def plan(self) -> Plan:
        """The open batch, if it can go on; else a new one; else nothing, after the poll timeout.

        A broker that can't be reached within the poll timeout is an empty poll, until it has been away for
        `unavailable-after.ms`: then BrokerUnavailableError is raised. Raises WrongDefinitionError for a topic that
        failed records would go to and that isn't there.
        """
        deadline = self.clock.monotonic() + self.subscription.poll_timeout_ms / 1000
        availability = Availability(self.subscription, self.run_log, self.clock)
        has_looked = False
        changes: list[str] = []
        while len(changes) < _MOST_CHANGES:
            try:
                with availability.noted():
                    if not has_looked:
                        refuse_missing_topics(self.subscription, self.source)
                        has_looked = True
                    planned = self._attempt(deadline)
            except BrokerUnavailableError as away:
                if self.clock.monotonic() >= deadline:
                    availability.refuse_outage(away)
                    return self._nothing(f"the broker can't be reached ({away}); the next run tries again")
                self.clock.wait(_POLL_SECONDS)
                continue
            match planned:
                case Plan():
                    return planned
                case Changed(what):
                    changes.append(what)
        raise self._never_settles(changes)

    def _attempt(self, deadline: float) -> Plan | Changed | None:
        """One look at ledger and Kafka; after a change, or None after a while of waiting, it takes another look."""
        snapshot = self.ledger.look(self.subscription.name)
        if self._claim_group(snapshot):
            return Changed("the group was claimed")
        if snapshot.open is not None:
            refuse_other_group(snapshot.open, self.subscription)
            return self._reconcile(snapshot.open)
        partitions = partitions_of(self.subscription, self.source)
        if claim_store(self.subscription, snapshot, partitions, elsewhere=self.elsewhere, ledger=self.ledger):
            return Changed("the store of the group's positions was noted")
        self._note_missing(partitions, snapshot.missing)
        if not partitions:
            missing = ", ".join(sorted(missing_names(self.subscription.topics, ())))
            why = f"none of the topics exists yet ({missing}); create it, or correct the definition"
            return self._wait_or_nothing(deadline, why)
        return self._from_standing(partitions, snapshot, deadline)

    def _from_standing(
        self, partitions: Sequence[TopicPartition], snapshot: LedgerSnapshot, deadline: float
    ) -> Plan | Changed | None:
        """What follows from where the group stands while no batch is open."""
        match self._resolver.resolve_position(partitions, snapshot):
            case GroupPosition(has_records=True) as group_position:
                return self._open(freeze(self.subscription, self.output, group_position), group_position, snapshot)
            case GroupPosition() as group_position:
                planned = self._wait_or_nothing(deadline, "there is nothing to read")
                if planned is not None:
                    self._look_after(group_position, snapshot)
                return planned
            case UncommittedPublish() as unfinished:
                return self._take(unfinished, snapshot)
            case changed:
                return changed

    def _never_settles(self, changes: Sequence[str]) -> TidegateError:
        """Why a plan that changes something each time it looks ends without one."""
        committed = self.offsets.committed(partitions_of(self.subscription, self.source))
        if committed and not any(position.metadata for position in committed.values()):
            return WrongDefinitionError(
                message(
                    "the cluster keeps no metadata with the group's offsets, by which Tidegate knows its own commits: "
                    "no batch was planned",
                    self._place,
                    "have it keep offset metadata, or set commit-strategy: checkpoint, which keeps positions in the "
                    f"ledger, and run `tidegate offsets move {self.subscription.name}`",
                )
            )
        counted = Counter(changes).most_common(3)
        said = "; ".join(f"{what} ({'once' if number == 1 else f'{number} times'})" for what, number in counted)
        return StaleError(
            message(
                f"no batch was planned, because something changed at each of {len(changes)} looks: {said}",
                self._place,
                "see that no other tool and no second Tidegate moves this group; the next run tries again",
            )
        )

    def _claim_group(self, snapshot: LedgerSnapshot) -> bool:
        return claim_group(
            self.subscription, snapshot, source=self.source, ledger=self.ledger, definitions=self.definitions
        )

    def _reconcile(self, batch: Batch) -> Plan | Changed:
        reconciler = Reconciler(self.subscription, self.source, self.offsets, self.ledger, self.lake)
        again = reconciler.reconcile(batch)
        if again is None:
            return Changed(f"batch {batch.id} was reconciled")
        if again.awaits_commit:
            match again.commit_policy.commit_at:
                case CommitPoint.NEXT_PLAN:
                    self.committer.commit(again.id)
                    return Changed(f"batch {batch.id} was committed")
                case CommitPoint.MANUAL:
                    name = self.subscription.name
                    return self._nothing(f"batch {again.id} is {again.state} and waits for `tidegate commit {name}`")
                case _:
                    pass
        return Plan(again, again.members_with_work() or (0,), f"{again.state} batch goes on")

    def _take(self, unfinished: UncommittedPublish, snapshot: LedgerSnapshot) -> Changed:
        """The ledger lost a batch after it was published: it is opened as the lake has it, to be committed."""
        published = unfinished.published
        batch = batch_of(
            self.subscription, self.output, unfinished.receipt, published.ranges, batch_id=published.batch_id
        )
        if self._was_committed(batch.id):
            self._resolver.forward(batch.id, unfinished.receipt, published.ranges, published.state)
            return Changed(f"the group was taken forward to the end of batch {batch.id}")
        log.warning("a batch is in the lake and the ledger doesn't know it: its commit is finished (%s)", batch)
        self.ledger.open(batch, snapshot.version, published)
        return Changed(f"batch {batch.id} was taken from the lake")

    def _was_committed(self, batch_id: str) -> bool:
        try:
            return self.ledger.batch(batch_id).outcome in SETTLED
        except StaleError:
            return False

    def _note_missing(self, partitions: Sequence[TopicPartition], known: frozenset[str]) -> None:
        existing = {tp for tp in partitions if tp.topic not in self.subscription.retry_topics}
        missing = missing_names(self.subscription.topics, existing) - known
        if missing:
            log.warning(
                "no such topic or partition yet: %s (%s); once there, it is read from its %s",
                ", ".join(sorted(missing)),
                location(subscription=self.subscription.name),
                "earliest record" if self.offsets.durable else "cursor",
            )
            self.ledger.note_missing(self.subscription.name, missing)

    def _open(self, batch: Batch, group_position: GroupPosition, snapshot: LedgerSnapshot) -> Plan | Changed:
        try:
            batch = self.ledger.open(batch, snapshot.version)
        except StaleError as error:
            settled = self._settled_ahead(batch, group_position)
            if not settled:
                if isinstance(error, OvertakenError):
                    return self._nothing(str(error))
                raise
            self._resolver.forward(batch.id, batch.receipt, settled)
            return Changed(f"the group was taken forward to the end of batch {batch.id}")
        taken = [r for r in batch.ranges if not r.is_empty]
        if batch.receipt.batch_id is not None and self.subscription.has_cursors:
            log.info("the group has committed and goes on from there: cursor and assign-seek are ignored (%s)", batch)
        log.info("planned %s (%s)", ", ".join(map(str, taken)), batch)
        return Plan(batch, batch.members_with_work(), f"{sum(r.end - r.start for r in taken)} offsets planned")

    def _settled_ahead(self, batch: Batch, group_position: GroupPosition) -> tuple[Range, ...]:
        """The ranges of a batch that is settled and not in the lake, if the group still stands before or within."""
        if (
            not self._was_committed(batch.id)
            or self.offsets.committed(group_position.committed) != group_position.committed
        ):
            return ()
        ranges = tuple(r for r in self.ledger.batch(batch.id).ranges if r.at in group_position.committed)
        is_before = all(group_position.committed[r.at].offset >= r.start for r in ranges)
        return ranges if is_before else ()

    def _look_after(self, group_position: GroupPosition, snapshot: LedgerSnapshot) -> None:
        """What a run without records is good for: committing what would expire, sweeping behind a crash."""
        since = None if snapshot.committed_at is None else self.ledger.now() - snapshot.committed_at
        if self.offsets.durable and (since is None or since >= _RECOMMIT_AFTER):
            self._resolver.recommit(group_position, snapshot.version)
        name = self.subscription.name
        sweep(name, self.output, 1, landing=self.landing, lake=self.lake, ledger=self.ledger)

    def _wait_or_nothing(self, deadline: float, why: str) -> Plan | None:
        left = deadline - self.clock.monotonic()
        if left <= 0:
            return self._nothing(why)
        self.clock.wait(min(_POLL_SECONDS, left))
        return None

    def _nothing(self, why: str) -> Plan:
        log.info("%s", message(f"no batch: {why}", self._place))
        return Plan(None, (), why)

    @property
    def _resolver(self) -> PositionResolver:
        return PositionResolver(self.subscription, self.output, self.source, self.offsets, self.ledger, self.lake)

    @property
    def _place(self) -> str:
        return location(subscription=self.subscription.name, group=self.subscription.consumer.group_id)
