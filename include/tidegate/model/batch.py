"""A batch, its states, and which state may follow which."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any

from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, CommitPolicy, CommitStrategy, PositionStore
from tidegate.model.errors import StaleError, TransitionError, location, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt


class State(StrEnum):
    """How far a batch has come."""

    PLANNED = "planned"
    LANDED = "landed"
    PROCESSING = "processing"
    FAILED = "failed"
    HELD = "held"
    """It waits for a person."""
    PROCESSED = "processed"
    DISCARDING = "discarding"
    """Nothing of it is to be published, though its offsets are to be committed."""
    PUBLISHED = "published"
    CLOSED = "closed"
    """Nothing is left to do: it has an outcome."""


class Resolution(StrEnum):
    """What is to be done with a batch that failed: what its failure strategy decides, or a person."""

    REDELIVER = "redeliver"
    STOP = "stop"
    ASK = "ask"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"
    RETRY_LATER = "retry-later"

    @property
    def discards(self) -> bool:
        """Whether nothing of the batch is published then."""
        return self in _DISCARDED


ANSWERS = (Resolution.REDELIVER, Resolution.DEAD_LETTER, Resolution.SKIP, Resolution.STOP)
"""What a person can have done with a batch that failed."""


class Outcome(StrEnum):
    """How a batch ended, for good."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    """Published, under a strategy that commits nothing."""
    IGNORED = "ignored"
    DEAD_LETTERED = "dead-lettered"
    RETRIED = "retried"
    EMPTY = "empty"
    """Nothing was landed, and no position moves."""
    ABANDONED = "abandoned"
    """Somebody moved its group, or its records were gone."""


RESOLVED: Mapping[Resolution, State] = {
    Resolution.REDELIVER: State.FAILED,
    Resolution.STOP: State.HELD,
    Resolution.ASK: State.HELD,
    Resolution.SKIP: State.DISCARDING,
    Resolution.DEAD_LETTER: State.DISCARDING,
    Resolution.RETRY_LATER: State.DISCARDING,
}
"""The state in which a batch waits for its resolution to be carried out."""

_DISCARDED: Mapping[Resolution, Outcome] = {
    Resolution.SKIP: Outcome.IGNORED,
    Resolution.DEAD_LETTER: Outcome.DEAD_LETTERED,
    Resolution.RETRY_LATER: Outcome.RETRIED,
}

PUBLISHED = frozenset({Outcome.COMMITTED, Outcome.UNCOMMITTED})
"""The outcomes of batches that are in the lake, where they have rows."""

SETTLED = frozenset({Outcome.COMMITTED, Outcome.UNCOMMITTED, *_DISCARDED.values()})
"""How a batch ends that was delivered to its end."""

_UNDELIVERED = frozenset({State.LANDED, State.PROCESSING, State.FAILED, State.HELD})

# Kafka's word closes a batch in any open state, and the lake's publishes it: what is published is a fact.
_FACTS = frozenset({State.PUBLISHED, State.CLOSED})

_FOLLOWS: Mapping[State, frozenset[State]] = {
    State.PLANNED: _FACTS | {State.LANDED},
    State.LANDED: _FACTS | {State.PROCESSING, State.FAILED},
    State.PROCESSING: _FACTS | {State.PROCESSING, State.PROCESSED, State.FAILED},
    State.FAILED: _FACTS | {State.PROCESSING, State.PROCESSED, State.HELD, State.DISCARDING},
    State.HELD: _FACTS | {State.FAILED, State.HELD, State.DISCARDING},
    State.PROCESSED: _FACTS | {State.FAILED},
    State.DISCARDING: _FACTS,
    State.PUBLISHED: _FACTS,
    State.CLOSED: frozenset(),
}

_CONDITIONS: Mapping[Resolution, str] = {
    Resolution.STOP: "stopped",
    Resolution.ASK: "asking",
    Resolution.SKIP: "ignoring",
    Resolution.DEAD_LETTER: "dead-lettering",
    Resolution.RETRY_LATER: "retrying",
}
"""Of a batch that is held or being discarded, the word that people read."""


def may_follow(old: State, new: State) -> bool:
    """Whether a batch of the old state can become the new one."""
    return new in _FOLLOWS[old]


@dataclass(frozen=True, slots=True)
class LandedFile:
    """One durable Parquet file of a landing; those of an earlier Tidegate have no checksum."""

    uri: str
    records: int
    bytes: int
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class Landed:
    """What one member landed of its share: for each partition the range as read, and how many records it held."""

    ranges: tuple[Range, ...]
    records: Mapping[TopicPartition, int]
    files: tuple[LandedFile, ...]


@dataclass(frozen=True, slots=True)
class PartialRange:
    """How far a delivery has come that didn't bring a partition to its end, and how many landed records that holds."""

    range: Range
    records: int


class Cause(StrEnum):
    """What failed a delivery: the transform and its records, anything else, its own death, or what doesn't count.

    That is a delivery that was interrupted, and one for which Spark, a store or another system couldn't be reached.
    """

    RECORDS = "records"
    SYSTEM = "system"
    DIED = "died"
    INTERRUPTED = "interrupted"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Tries:
    """The deliveries of a batch since somebody last had it redelivered, by what failed each, oldest first.

    None stands for one that is under way, was processed or ended without a word.
    """

    causes: tuple[Cause | None, ...] = ()

    @property
    def counted(self) -> int:
        """How many of them count towards the limit."""
        return len(self._counted)

    @property
    def fails_records(self) -> bool:
        """Whether it was its records that failed the last one that counts."""
        return self._counted[-1:] == (Cause.RECORDS,)

    @property
    def interrupted(self) -> int:
        """How many of the last ones were interrupted, in a row."""
        return sum(1 for _ in takewhile(lambda cause: cause is Cause.INTERRUPTED, reversed(self.causes)))

    @property
    def _counted(self) -> tuple[Cause | None, ...]:
        return tuple(cause for cause in self.causes if cause not in (Cause.INTERRUPTED, Cause.UNREACHABLE))


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to process a batch: its number, counted in the ledger, and its unique token."""

    number: int
    token: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What one run takes: a range for each partition of the subscription, empty ones included.

    `shares` names the partitions of each member; `records` and `files` are known once it has landed; `attempt`
    is the staging folder of the delivery that was processed first, and `seal` the checksum of the list of its files and
    theirs; None for one that an earlier Tidegate has audited. `rows`, `rejected` and `filtered` are what that delivery
    made of its records. `commit_strategy` is that of its plan, and with `offsets_committed` the offsets are settled
    before its output is. It has a `resolution` once it failed and something was decided, until it turns out to be
    published, and an `outcome` once it is closed.
    """

    id: str
    subscription: str
    group: str
    receipt: Receipt
    ranges: tuple[Range, ...]
    shares: tuple[tuple[TopicPartition, ...], ...]
    output: str
    partition_by: tuple[str, ...] = ()
    commit_strategy: CommitStrategy = "after-processing"
    state: State = State.PLANNED
    resolution: Resolution | None = None
    outcome: Outcome | None = None
    offsets_committed: bool = False
    records: Mapping[TopicPartition, int] = field(default_factory=dict)
    files: tuple[LandedFile, ...] = ()
    delivery: Delivery | None = None
    attempt: str | None = None
    rows: int | None = None
    rejected: int | None = None
    filtered: int | None = None
    seal: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        """`subscription flights, batch b12`, as every message names it."""
        return location(subscription=self.subscription, batch=self.id)

    @property
    def next_receipt(self) -> Receipt:
        """What the commit of this batch writes on every partition."""
        return self.receipt.next(self.id)

    @property
    def commit_policy(self) -> CommitPolicy:
        """What the commit strategy of its plan comes to."""
        return COMMIT_POLICIES[self.commit_strategy]

    @property
    def is_open(self) -> bool:
        """Whether something is left to do for the batch."""
        return self.state is not State.CLOSED

    @property
    def is_discarded(self) -> bool:
        """Whether nothing of the batch is to be published, though its offsets are to be committed."""
        return self.state is State.DISCARDING

    @property
    def is_published(self) -> bool:
        """Whether the batch is in the lake, as far as it is known to be."""
        return self.rows is not None and (self.state is State.PUBLISHED or self.outcome in PUBLISHED)

    @property
    def condition(self) -> str:
        """State, resolution and outcome in the one word that people read: `landed`, `stopped`, `dead-lettered`."""
        if self.state in (State.HELD, State.DISCARDING) and self.resolution is not None:
            return _CONDITIONS[self.resolution]
        return str(self.outcome or self.state)

    @property
    def final_outcome(self) -> Outcome:
        """How it ends when output and offsets are settled: what the output came to."""
        if self.outcome in SETTLED:
            return self.outcome
        if self.is_discarded and self.resolution is not None:
            return _DISCARDED[self.resolution]
        return Outcome.UNCOMMITTED if self.commit_policy.store is PositionStore.NONE else Outcome.COMMITTED

    def advanced(self, state: State, **changes: Any) -> "Batch":
        """The batch in another state, and with these changes. Raises TransitionError if that can't follow."""
        if not may_follow(self.state, state):
            raise TransitionError(
                message(f"a batch that is {self.condition} can't become {state}", self, "the next run reconciles it")
            )
        return replace(self, state=state, **changes)

    def resolved(self, resolution: Resolution, reason: str | None) -> "Batch":
        """The batch, with which this is to be done. Raises TransitionError if it is too late for that, or too early."""
        if (self.resolution, resolution) == (Resolution.STOP, Resolution.ASK):
            raise TransitionError(
                message("a batch that is stopped can't ask any more", self, "the next run reconciles it")
            )
        nothing_won: dict[str, None] = {"attempt": None, "rows": None, "rejected": None, "filtered": None}
        return self.advanced(RESOLVED[resolution], resolution=resolution, reason=reason, **nothing_won)

    def closed(self, outcome: Outcome, reason: str | None = None) -> "Batch":
        """The batch at its end; one that is settled keeps its reason if there is no new one.

        Raises TransitionError for an outcome that it can't have.
        """
        if outcome not in self._possible_outcomes:
            raise TransitionError(
                message(f"a batch that is {self.condition} can't be {outcome}", self, "the next run reconciles it")
            )
        if outcome not in SETTLED:
            return self.advanced(State.CLOSED, outcome=outcome, reason=reason)
        is_committed = self.commit_policy.store is not PositionStore.NONE
        kept = self.reason if reason is None else reason
        return self.advanced(State.CLOSED, outcome=outcome, reason=kept, offsets_committed=is_committed)

    @property
    def _possible_outcomes(self) -> frozenset[Outcome]:
        """Kafka's word closes a batch in any open state: its offsets were committed, or somebody moved the group."""
        if self.is_discarded and self.resolution is not None:
            return frozenset({_DISCARDED[self.resolution], Outcome.ABANDONED})
        always = frozenset({Outcome.COMMITTED, Outcome.UNCOMMITTED, Outcome.ABANDONED})
        return always | {Outcome.EMPTY} if self.state is State.PLANNED else always

    @property
    def landed_records(self) -> int:
        """The number of records in the landing."""
        return sum(self.records.values())

    @property
    def moved(self) -> bool:
        """Whether any position moves when the batch is committed."""
        return any(not r.is_empty for r in self.ranges)

    @property
    def is_to_be_delivered(self) -> bool:
        """Whether it has records, and no delivery of them was processed."""
        return self.state in _UNDELIVERED and self.landed_records > 0

    @property
    def awaits_commit(self) -> bool:
        """Whether all that is left to do is to commit: it is published, or nothing of it is to be."""
        is_done = self.state is State.PUBLISHED or self.is_discarded
        return is_done or (self.state is State.LANDED and not self.landed_records)

    @property
    def awaits_commit_by_hand(self) -> bool:
        """Whether that commit is left to a person, by `tidegate commit`."""
        return self.awaits_commit and self.commit_policy.commit_at is CommitPoint.MANUAL

    @property
    def how_to_end(self) -> str:
        """The commands by which a person has it end, while it is open."""
        if self.awaits_commit_by_hand:
            return f"`tidegate commit {self.subscription}`"
        run = f"`tidegate run {self.subscription}`, or its DAG"
        return f"`tidegate clear {self.subscription}`, then {run}" if self.state is State.HELD else run

    def share(self, member: int) -> tuple[Range, ...]:
        """The ranges that this member lands; empty ones left out. Raises StaleError for a member that isn't one."""
        if not 0 <= member < len(self.shares):
            raise StaleError(
                message(
                    f"member {member} is of another plan, this batch has {len(self.shares)}: what it lands doesn't "
                    "count",
                    self,
                    "the next run finds out where things stand",
                )
            )
        mine = frozenset(self.shares[member])
        return tuple(r for r in self.ranges if r.at in mine and not r.is_empty)

    def members_with_work(self) -> tuple[int, ...]:
        """The numbers of the members that have something to land."""
        return tuple(m for m in range(len(self.shares)) if self.share(m))
