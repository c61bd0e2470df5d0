"""A batch, its states, and which state may follow which."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPolicy, CommitStrategy, PositionStore
from tidegate.model.errors import StaleError, TransitionError, location, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt


class State(StrEnum):
    """How far a batch has come."""

    PLANNED = "planned"
    LANDED = "landed"
    PROCESSING = "processing"
    PROCESSED = "processed"
    PUBLISHED = "published"
    FAILED = "failed"
    STOPPED = "stopped"
    ASKING = "asking"
    IGNORING = "ignoring"
    DEAD_LETTERING = "dead-lettering"
    RETRYING = "retrying"
    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    IGNORED = "ignored"
    DEAD_LETTERED = "dead-lettered"
    RETRIED = "retried"
    EMPTY = "empty"
    ABANDONED = "abandoned"

    @property
    def is_open(self) -> bool:
        """Whether something is left to do for the batch."""
        return bool(_FOLLOWS[self])

    @property
    def is_discarded(self) -> bool:
        """Whether nothing of the batch is to be published, though its offsets are to be committed."""
        return self in _DISCARDED


_DISCARDED: Mapping[State, State] = {
    State.IGNORING: State.IGNORED,
    State.DEAD_LETTERING: State.DEAD_LETTERED,
    State.RETRYING: State.RETRIED,
}
"""What becomes of a batch of which nothing is published, once that is settled."""

SETTLED = frozenset({State.COMMITTED, State.UNCOMMITTED, *_DISCARDED.values()})
"""How a batch can end that was delivered to its end."""

_UNDELIVERED = frozenset({State.LANDED, State.PROCESSING, State.FAILED, State.STOPPED, State.ASKING})

# Kafka's word ends a batch from any open state: its offsets were committed, or somebody moved the group.
_ENDS = frozenset({State.COMMITTED, State.UNCOMMITTED, State.ABANDONED})
# So does the lake's, which may know of a batch that the ledger lost: what is published is a fact.
_FACTS = _ENDS | {State.PUBLISHED}

_FOLLOWS: Mapping[State, frozenset[State]] = {
    State.PLANNED: _FACTS | {State.LANDED, State.EMPTY},
    State.LANDED: _FACTS | {State.PROCESSING, State.FAILED},
    State.PROCESSING: _FACTS | {State.PROCESSING, State.PROCESSED, State.FAILED},
    State.FAILED: _FACTS | {State.PROCESSING, State.PROCESSED, State.STOPPED, State.ASKING, *_DISCARDED},
    State.STOPPED: _FACTS | {State.FAILED, *_DISCARDED},
    State.ASKING: _FACTS | {State.FAILED, State.STOPPED, *_DISCARDED},
    **{giving: frozenset({given, State.ABANDONED, State.PUBLISHED}) for giving, given in _DISCARDED.items()},
    State.PROCESSED: _FACTS | {State.FAILED},
    State.PUBLISHED: _FACTS,
    **dict.fromkeys((*SETTLED, State.EMPTY, State.ABANDONED), frozenset()),
}


def may_follow(old: State, new: State) -> bool:
    """Whether a batch of the old state can become the new one."""
    return new in _FOLLOWS[old]


def advance(batch_id: str, old: State, new: State) -> State:
    """The new state, if it may follow the old one.

    Raises TransitionError for any other; the ledger calls this in the transaction that reads the old state.
    """
    if not may_follow(old, new):
        at = location(batch=batch_id)
        raise TransitionError(message(f"a batch that is {old} can't become {new}", at, "the next run reconciles it"))
    return new


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
    """What failed a delivery: the transform and its records, anything else, or what doesn't count.

    That is a delivery that was interrupted, and one for which Spark couldn't be reached.
    """

    RECORDS = "records"
    SYSTEM = "system"
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
    theirs; None for one that an earlier Tidegate has audited. `commit_strategy` is that of its plan, and with
    `offsets_committed` the offsets are settled before its output is.
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
    offsets_committed: bool = False
    records: Mapping[TopicPartition, int] = field(default_factory=dict)
    files: tuple[LandedFile, ...] = ()
    delivery: Delivery | None = None
    attempt: str | None = None
    rows: int | None = None
    rejected: int | None = None
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
    def final_state(self) -> State:
        """What the state becomes when output and offsets are settled: what the output came to, for good."""
        published = State.UNCOMMITTED if self.commit_policy.store is PositionStore.NONE else State.COMMITTED
        return _DISCARDED.get(self.state, self.state if self.state in SETTLED else published)

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
        is_done = self.state is State.PUBLISHED or self.state.is_discarded
        return is_done or (self.state is State.LANDED and not self.landed_records)

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
