"""The record of batches, and what it tells."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Protocol

from tidegate.model.batch import Batch, Cause, Delivery, Landed, Outcome, PartialRange, Resolution, Tries
from tidegate.model.commit_policy import PositionStore
from tidegate.model.manifest import Counts, Published, Result
from tidegate.model.offsets import Range, TopicPartition


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """What the ledger says of a subscription.

    Its version, the open batch, topics once found missing, the topic ids that positions belong to, when its positions
    were last committed, and by group the id of the cluster that its positions belong to (None where the cluster tells
    none, or nobody has asked yet) and the store that has them, where one has any.
    """

    version: str
    open: Batch | None
    missing: frozenset[str] = frozenset()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    committed_at: datetime | None = None
    clusters: Mapping[str, str | None] = field(default_factory=dict)
    stores: Mapping[str, PositionStore] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupHolder:
    """The subscription whose a group is, in the cluster of this id, and whether a batch of the group is open."""

    subscription: str
    cluster_id: str | None
    has_open_batch: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """A position whose records were gone, and what the partition held instead: `[earliest, end)`."""

    topic: str
    partition: int
    position: int
    earliest: int
    end: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided about a batch that stopped or asked, when, what, and what they had to say."""

    by: str
    at: datetime
    note: str = ""
    answer: Resolution = Resolution.REDELIVER


@dataclass(frozen=True, slots=True)
class PositionChange:
    """A partition whose position a person moves, from where it stood (None where it had none) to where."""

    at: TopicPartition
    before: int | None
    after: int

    def __str__(self) -> str:
        """`orders-0 from 10 to 0`."""
        return f"{self.at} {'' if self.before is None else f'from {self.before} '}to {self.after}"


@dataclass(frozen=True, slots=True)
class GroupReset:
    """Who reset a group, when, why, what that moves and which batch it gives up; `is_done` once that is committed."""

    id: str
    group: str
    by: str
    at: datetime
    note: str
    changes: tuple[PositionChange, ...]
    gives_up: str | None = None
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """Ranges of a subscription that are read once more, into another output, under the derived subscription `name`.

    `asked` is what was wanted, in words; `by` whom, when and why.
    """

    name: str
    subscription: str
    output: str
    asked: str
    by: str
    at: datetime
    note: str
    ranges: tuple[Range, ...]
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a subscription's history; `since` is when the batch came into its state."""

    batch: Batch
    deliveries: int
    opened_at: datetime
    closed_at: datetime | None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExpiredBatch:
    """A batch that ended well long ago, and that nothing needs any more; `number` is its place in the history."""

    id: str
    number: int
    closed_at: datetime
    files: tuple[str, ...]
    """The URIs of its landed files."""


@dataclass(frozen=True, slots=True)
class DeliveryAge:
    """How long ago a delivery began, and gave its last sign of life."""

    begun: timedelta
    silent: timedelta


class Ledger(Protocol):
    """The record of batches, ranges, deliveries and outcomes. Transitions are refused that `Batch` doesn't allow.

    Every method is one transaction. UnavailableError where the database can't be reached.
    """

    def now(self) -> datetime:
        """The present instant by the ledger's clock, by which all instants are that it keeps: compare those with it."""
        ...

    def look(self, subscription: str) -> LedgerSnapshot:
        """The subscription's version and open batch; ask before Kafka is asked."""
        ...

    def note_missing(self, subscription: str, topics: Collection[str]) -> None:
        """Remember topics, chosen partitions (`orders[3]`) or a pattern that a plan missed; known ones change nothing.

        Such a one starts at its earliest record when it appears, whatever `auto.offset.reset` says.
        """
        ...

    def note_topics(self, subscription: str, ids: Mapping[str, str], version: str, found: Collection[str] = ()) -> None:
        """Remember the ids of the topics that the subscription's positions belong to, where none is known yet.

        What was `found`, by the names that `note_missing` was given, is missing no longer. Nothing changes if the
        version isn't this one any more: somebody went on since the topics were looked at.
        """
        ...

    def claim_group(self, subscription: str, group: str, cluster_id: str | None) -> GroupHolder | None:
        """Note that the subscription reads with the group in this cluster, unless another one does: that one then.

        Where either cluster's id isn't known, they are taken for one.
        """
        ...

    def group_holders(self, group: str) -> frozenset[str]:
        """The subscriptions that read with the group, in whichever cluster."""
        ...

    def take_over_group(self, subscription: str, group: str, holder: str) -> None:
        """Make the group of the `holder` the subscription's: batches, positions, and what is known of its topics.

        Nothing changes if the holder hasn't the group any more. Raises StaleError if a batch of the subscription is
        open.
        """
        ...

    def accept_cluster(self, subscription: str, group: str, cluster_id: str, by: str) -> None:
        """Note that the group is one of another cluster now: what was committed before means nothing any more."""
        ...

    def note_store(
        self, subscription: str, group: str, store: PositionStore, version: str, by: str | None = None
    ) -> None:
        """Note which store has the positions of a claimed group; `by` is who moved them there, if a person did.

        That makes a new version: who planned from the other store goes on no more. Raises OvertakenError if the
        subscription's version isn't this one any more.
        """
        ...

    def begin_reset(self, subscription: str, reset: GroupReset, version: str) -> str:
        """Enter that a person is about to move these positions; the version from then on.

        Raises OvertakenError if the subscription's version isn't this one any more, or a batch is open, unless it is
        the one that the reset gives up.
        """
        ...

    def end_reset(self, subscription: str, reset: GroupReset, version: str, topic_ids: Mapping[str, str]) -> None:
        """Enter that the positions of a reset are committed, in the topics of these ids.

        They are the group's last ends then, unless the version isn't this one any more: somebody went on from them.
        """
        ...

    def resets(self, subscription: str, limit: int) -> tuple[GroupReset, ...]:
        """The newest first, those too that weren't carried out, as far as the ledger knows."""
        ...

    def begin_replay(self, replay: Replay) -> Replay:
        """Enter a replay, unless one of this name was begun before: that one then."""
        ...

    def end_replay(self, name: str) -> None:
        """Enter that a replay has come to its end."""
        ...

    def replays(self, subscription: str | None = None) -> tuple[Replay, ...]:
        """Those of a subscription, or of all; the newest first."""
        ...

    def open_batches(self) -> tuple[Batch, ...]:
        """The open batches of all subscriptions, in order of subscription."""
        ...

    def note_commit(
        self,
        subscription: str,
        group: str,
        offsets: Mapping[TopicPartition, int],
        version: str,
        *,
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        found: Collection[str] = (),
    ) -> None:
        """Remember positions that are committed without a batch, just before or just after: an anchor, an idle group's.

        The ids of the topics that they are in replace those that are known, what was `found` is missing no longer, and
        there is a new version, all at once. Nothing changes if the version isn't this one any more: somebody went on
        since they were looked at.
        """
        ...

    def note_losses(self, subscription: str, losses: Collection[Loss]) -> None:
        """Remember lost positions; one that is known already changes nothing."""
        ...

    def losses(self, subscription: str) -> tuple[Loss, ...]:
        """The positions of the subscription that were lost, in order of partition and position."""
        ...

    def open(self, batch: Batch, version: str, published: Published | None = None) -> Batch:
        """Enter a planned batch, or one that is published already, as the lake has it.

        Raises StaleError if the version is no longer this one, or a batch is open.
        """
        ...

    def batch(self, batch_id: str) -> Batch:
        """The batch as it stands. Raises StaleError if the ledger doesn't know it."""
        ...

    def landed(self, batch_id: str, member: int, landed: Landed) -> Batch:
        """Enter a member's landing: the first report counts, later ones change nothing.

        With the last member's report the ends are shrunk to what was landed and the batch becomes landed, or
        empty if no position moves.
        """
        ...

    def reported(self, batch_id: str, member: int) -> bool:
        """Whether this member's landing was reported."""
        ...

    def start_delivery(self, batch_id: str) -> Delivery:
        """Count a delivery, and make the batch processing."""
        ...

    def processed(
        self,
        batch_id: str,
        delivery: Delivery,
        result: Result,
        counts: Counts,
        reached: Collection[PartialRange] = (),
    ) -> Batch:
        """Enter a delivery's success; the first processed delivery wins, later ones change nothing.

        The batch's ranges shrink to what was `reached` of them; those that aren't named stay.
        """
        ...

    def failed(self, batch_id: str, delivery: Delivery, reason: str, cause: Cause = Cause.SYSTEM) -> Batch:
        """Enter a delivery's failure and its cause; the batch becomes failed unless another delivery is further."""
        ...

    def adopt(self, batch_id: str, published: Published) -> Batch:
        """Take what the lake says of the batch for a fact: its ranges, records, files and rows; it is published."""
        ...

    def resolve(self, batch_id: str, resolution: Resolution, reason: str | None = None) -> Batch:
        """Enter what is to be done with a batch that failed, or will: a no-op if that was decided before."""
        ...

    def close(self, batch_id: str, outcome: Outcome, reason: str | None = None) -> Batch:
        """End a batch; settled without a new reason it keeps its own. A no-op if it ended so before."""
        ...

    def remark(self, batch_id: str, text: str) -> Batch:
        """Add to the batch's reason what whoever looks at its status is to know; once, however often it is said."""
        ...

    def deliveries(self, batch_id: str) -> int:
        """How often a delivery of the batch was started."""
        ...

    def tries(self, batch_id: str) -> Tries:
        """What became of its deliveries since somebody last had it redelivered."""
        ...

    def received(self, batch_id: str) -> Batch:
        """Enter that the batch's offsets are committed, whatever becomes of its output."""
        ...

    def clear(self, batch_id: str, clearance: Decision) -> Batch:
        """Have done with a batch that can't go on as somebody has answered, and remember who that was.

        A batch that is redelivered has all its tries again.
        """
        ...

    def clearances(self, subscription: str, limit: int) -> tuple[tuple[str, Decision], ...]:
        """The newest clearances first, each with its batch's id."""
        ...

    def begin_operation(self, run: str, by: str) -> None:
        """Enter that this run, by which a person clears or commits, is carried out, and whose it is.

        Raises StaleError if it was entered before: a run decides once.
        """
        ...

    def note_alive(self, batch_id: str, token: str) -> None:
        """Enter that this delivery gives a sign of life now, by the ledger's clock."""
        ...

    def delivery_age(self, batch_id: str, token: str) -> DeliveryAge:
        """How long ago this delivery began, and gave its last sign of life, all by the ledger's clock."""
        ...

    def history(self, subscription: str, limit: int | None) -> tuple[HistoryEntry, ...]:
        """The newest batches first, at most so many of them; None for all."""
        ...

    def newest_outputs(self, subscriptions: Collection[str]) -> Mapping[str, str]:
        """The URI of the output of each subscription's newest batch; none of one that never had any."""
        ...

    def written_outputs(self) -> Collection[tuple[str, str]]:
        """Each subscription, with the URI of each output into which a batch of it was published, or may be yet."""
        ...

    def outcomes(self, batch_ids: Collection[str]) -> Mapping[str, Outcome | None]:
        """How these batches ended, None for open ones, of whichever subscription; unknown ones are left out."""
        ...

    def closed_files(self, subscription: str, newest: int) -> dict[str, frozenset[str]]:
        """The URIs of the landed files of each of the newest closed batches, by batch id."""
        ...

    def last_ends(self, subscription: str, group: str) -> dict[TopicPartition, int]:
        """The offsets that were last committed for this group of the subscription, with a batch or without."""
        ...

    def expired(self, subscription: str, before: datetime, beyond: int, limit: int) -> tuple[ExpiredBatch, ...]:
        """The batches that were published and ended before this instant, and whose rows nothing needs; oldest first.

        At most so many, of those with a number beyond this one. Never among them: of each group the newest closed
        batch whose offsets were committed, and the newest whose weren't; a batch that a person decided about.
        """
        ...

    def forget(self, batch_id: str, before: datetime) -> bool:
        """Remove all rows of a batch, if it is expired still; whether this call did.

        The subscription's version stays: what follows from the ledger is the same without them.
        """
        ...
