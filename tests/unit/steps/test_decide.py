"""What a plan does about what it has observed: the rules of planning, a row each.

The rows follow the protocol: what becomes of an open batch, where a group goes on without one, and what is read.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from definitions import subscription

from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.errors import LostDataError
from tidegate.model.manifest import Published
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription, TopicNames
from tidegate.ports import Committed, LedgerSnapshot
from tidegate.steps.anchor import At, Earliest, Latest
from tidegate.steps.decide import (
    Abandon,
    Action,
    Adopt,
    Anchor,
    AwaitCommit,
    CommitPrevious,
    Forward,
    GoOn,
    Hold,
    NoteCommitted,
    NoteMissing,
    NoteReceived,
    NoteTopics,
    NothingToRead,
    OpenBatch,
    OpenPublished,
    Recommit,
    decide,
)
from tidegate.steps.observe import ObservedBatch, ObservedGroup

OUTPUT = "memory://lake/orders"
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECEIPT = Receipt("i1", "b0", 3)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTS = {P0: Committed(10, str(RECEIPT)), P1: Committed(0, str(RECEIPT))}
RANGES = (Range("orders", 0, 10, 15), Range("orders", 1, 0, 4))
BATCH = Batch(RECEIPT.batch_after("orders-lake"), "orders", "orders-lake", RECEIPT, RANGES, ((P0, P1),), OUTPUT)
ENDS = {P0: Committed(15, str(BATCH.next_receipt)), P1: Committed(4, str(BATCH.next_receipt))}
IN_THE_LAKE = Published(BATCH.id, RANGES, {P0: 5, P1: 4}, (), 9, 0)
HELD = {P0: Watermarks(0, 15), P1: Watermarks(0, 4)}
IDS = {"orders": "id1"}


def at(position: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, Committed]:
    return {tp: Committed(offset, metadata) for tp, (offset, metadata) in position.items()}


def batch(state: State, strategy: Any = "after-processing", resolution: Resolution | None = None) -> Batch:
    landed = {} if state is State.PLANNED else {"records": {P0: 5, P1: 4}}
    return replace(BATCH, state=state, commit_strategy=strategy, resolution=resolution, **landed)


def of_batch(what: Batch, committed: Mapping[TopicPartition, Committed] = STARTS, **seen: Any) -> ObservedBatch:
    """An open batch whose partitions are there, and hold its records."""
    usual: dict[str, Any] = {"exist": (P0, P1), "marks": HELD, "topic_ids": IDS}
    return ObservedBatch(LedgerSnapshot("v:1", what, topic_ids=IDS), what, committed, **usual | seen)


# 1. The open batch is reconciled first: Kafka's word, then the lake's, then the ledger's.
PLANNED, LANDED, PROCESSED = batch(State.PLANNED), batch(State.LANDED), batch(State.PROCESSED)
PUBLISHED = batch(State.PUBLISHED)
EMPTY = replace(LANDED, records={})
RECEIVED = batch(State.LANDED, "on-receipt")
NEXT, MANUAL = batch(State.PUBLISHED, "on-next-poll"), batch(State.PUBLISHED, "manual")
STOPPED = batch(State.HELD, resolution=Resolution.STOP)
GIVEN_UP = batch(State.DISCARDING, "on-next-poll", Resolution.SKIP)
MOVED = at({P0: (12, ""), P1: (0, str(RECEIPT))})
HALF = STARTS | {P0: ENDS[P0]}
WITHIN = STARTS | {P0: Committed(12, str(RECEIPT))}
THROTTLED = batch(State.FAILED, "throttled")
P0_LEFT = replace(IN_THE_LAKE, ranges=RANGES[:1])
UNREAD: dict[str, Any] = {"unread": RANGES}
BATCHES: dict[str, tuple[ObservedBatch, Action]] = {
    "at its starts: it is delivered again": (of_batch(LANDED), GoOn(LANDED)),
    "at its ends, and its output has nothing of it: it was committed, and that is noted": (
        of_batch(STOPPED, ENDS),
        NoteCommitted(
            STOPPED, "its offsets were committed, which the ledger didn't know, and its output has nothing of it"
        ),
    ),
    "at its ends, and in the lake": (
        of_batch(STOPPED, ENDS, published=IN_THE_LAKE),
        Adopt(STOPPED, IN_THE_LAKE, "a batch is in the lake, which the ledger didn't know"),
    ),
    "at its ends, and published as the ledger knows": (
        of_batch(PUBLISHED, ENDS, published=IN_THE_LAKE),
        NoteCommitted(PUBLISHED),
    ),
    "at its ends, and the output has come to a later batch": (
        of_batch(STOPPED, ENDS, passed=True),
        NoteCommitted(STOPPED, "its offsets were committed, which the ledger didn't know"),
    ),
    "at its ends, and given up": (of_batch(GIVEN_UP, ENDS), NoteCommitted(GIVEN_UP)),
    "at its ends, without a record": (of_batch(EMPTY, ENDS), NoteCommitted(EMPTY)),
    "at its ends once landed, on receipt": (of_batch(RECEIVED, ENDS), NoteReceived(RECEIVED)),
    "some at their ends: a commit that came to some partitions is finished": (
        of_batch(PROCESSED, HALF),
        GoOn(PROCESSED),
    ),
    "without positions: they expired, and the ledger knows": (of_batch(LANDED, {}), GoOn(LANDED)),
    "within it under our receipt, where acknowledged records are committed": (
        of_batch(THROTTLED, WITHIN),
        GoOn(THROTTLED),
    ),
    "in the lake, and the ledger doesn't know": (
        of_batch(PROCESSED, published=IN_THE_LAKE),
        Adopt(PROCESSED, IN_THE_LAKE, "a batch is in the lake, which the ledger didn't know"),
    ),
    "given up, and in the lake all the same": (
        of_batch(GIVEN_UP, published=IN_THE_LAKE),
        Adopt(GIVEN_UP, IN_THE_LAKE, "a batch is in the lake, which the ledger didn't know"),
    ),
    "held: it waits for a person": (of_batch(STOPPED), Hold(STOPPED)),
    "published: its commit is finished": (of_batch(PUBLISHED, published=IN_THE_LAKE), GoOn(PUBLISHED)),
    "published, committed with the next poll": (of_batch(NEXT, published=IN_THE_LAKE), CommitPrevious(NEXT)),
    "given up, committed with the next poll": (of_batch(GIVEN_UP), CommitPrevious(GIVEN_UP)),
    "published, committed by a person": (of_batch(MANUAL, published=IN_THE_LAKE), AwaitCommit(MANUAL)),
    "published, and a partition was deleted": (
        of_batch(PUBLISHED, published=IN_THE_LAKE, exist=(P0,)),
        Adopt(PUBLISHED, P0_LEFT, "orders-1 isn't there any more, nothing is committed for it"),
    ),
    "published, and its topic was deleted": (
        of_batch(PUBLISHED, published=IN_THE_LAKE, exist=()),
        Abandon(PUBLISHED, "it is published, and nothing can be committed: orders-0, orders-1 isn't there any more"),
    ),
    "planned, and what it takes is there": (of_batch(PLANNED, **UNREAD), GoOn(PLANNED)),
}


@pytest.mark.parametrize("row", BATCHES)
def test_an_open_batch(row: str) -> None:
    seen, action = BATCHES[row]
    assert decide(subscription(), OUTPUT, seen) == action


@pytest.mark.parametrize("state", [State.PLANNED, State.LANDED, State.FAILED, State.PROCESSED, State.PUBLISHED])
def test_an_open_batch_whose_group_somebody_moved_is_abandoned(state: State) -> None:
    action = decide(subscription(), OUTPUT, of_batch(batch(state), MOVED, published=IN_THE_LAKE))
    assert isinstance(action, Abandon)
    assert action.reason.startswith("the group was moved by somebody else: orders-0 was planned as [10, 15)")


GONE: dict[str, tuple[dict[str, Any], str]] = {
    "expired": (
        {"marks": HELD | {P0: Watermarks(12, 15)}},
        "group reset orders --to earliest --partitions orders:0 --abandon",
    ),
    "created again": (
        {"topic_ids": {"orders": "id2"}},
        "group reset orders --to earliest --partitions orders --abandon",
    ),
    "a partition deleted": ({"exist": (P0,)}, "group reset orders --to earliest --partitions orders --abandon"),
    "deleted": ({"exist": ()}, "or create the topic again, and the run after that says how to go on"),
}


@pytest.mark.parametrize("how", GONE)
def test_a_planned_batch_whose_records_went_before_they_landed(how: str) -> None:
    known, remedy = GONE[how]
    seen = of_batch(PLANNED, **UNREAD, **known)
    with pytest.raises(LostDataError, match=f"records are lost: .*{remedy}"):
        decide(subscription(), OUTPUT, seen)
    action = decide(subscription(on_data_loss="reset"), OUTPUT, seen)
    assert isinstance(action, Abandon)
    assert action.reason.startswith("records of it were lost before they landed")


@pytest.mark.parametrize("how", GONE)
def test_what_has_landed_may_go(how: str) -> None:
    assert decide(subscription(), OUTPUT, of_batch(LANDED, **GONE[how][0])) == GoOn(LANDED)


# 2. Without an open batch: where the group goes on, and under which receipt.
def of_group(
    committed: Mapping[TopicPartition, Committed] = STARTS,
    partitions: tuple[TopicPartition, ...] = (P0, P1),
    missing: frozenset[str] = frozenset(),
    noted: Mapping[str, str] = IDS,
    committed_at: datetime | None = NOON,
    **seen: Any,
) -> ObservedGroup:
    """A group that stands at the starts, whose partitions hold nothing more."""
    usual: dict[str, Any] = {
        "topic_ids": IDS if partitions else {},
        "last_ends": {},
        "published": {},
        "settled": {},
        "marks": {P0: Watermarks(0, 10), P1: Watermarks(0, 0)},
        "now": NOON,
    }
    given = usual | seen
    given.setdefault("ends", {tp: held.end for tp, held in given["marks"].items()})
    snapshot = LedgerSnapshot("v:1", None, missing, noted, committed_at)
    return ObservedGroup(snapshot=snapshot, partitions=partitions, committed=committed, missing=missing, **given)


class Starts(NamedTuple):
    """An anchor of these partitions, under the receipt in force or, with None, under a new incarnation."""

    of: Mapping[TopicPartition, object]
    under: Receipt | None
    why: str


def told(action: Action) -> object:
    """The action; of an anchor what matters, as the receipt of a new incarnation is drawn."""
    if not isinstance(action, Anchor):
        return action
    return Starts(action.at.unanchored, None if action.at.begins_incarnation else action.at.receipt, action.at.why)


EARLIEST = {P0: Earliest(), P1: Earliest()}
BEYOND = f"batch {BATCH.id} is published from orders-0 at 10, and the group is at 12"
NEW = "partitions that are new, or are read again, or that the last commit didn't come to"
FOREIGN = at({P0: (3, ""), P1: (0, str(RECEIPT))})
OLDER = Receipt("i1", "b00", 2)
BEHIND = at({P0: (10, str(RECEIPT)), P1: (0, str(OLDER))})
BEFORE = {RECEIPT: IN_THE_LAKE}
RECORDS: dict[str, Any] = {"marks": HELD}
TWO = {"orders": "id1", "planes": "id9"}
DAY = timedelta(days=1)
FROZEN = replace(BATCH, partition_by=())
GROUPS: dict[str, tuple[Subscription, ObservedGroup, object]] = {
    "no topic is there": (
        subscription(),
        of_group({}, (), frozenset({"orders"})),
        NothingToRead("none of the topics exists any more (orders); create it again, or correct the definition"),
    ),
    "a topic isn't there yet: that is noted": (
        subscription(topics=TopicNames(("orders", "planes"))),
        of_group(),
        NoteMissing(frozenset({"planes"})),
    ),
    "first contact": (
        subscription(),
        of_group({}, noted={}),
        Starts(EARLIEST, None, "first contact"),
    ),
    "first contact from latest": (
        subscription(consumer={"auto_offset_reset": "latest"}),
        of_group({}, noted={}),
        Starts({P0: Latest(), P1: Latest()}, None, "first contact"),
    ),
    "first contact of what was missing before": (
        subscription(consumer={"auto_offset_reset": "latest"}),
        of_group({}, missing=frozenset({"orders"}), noted={}),
        Starts(EARLIEST, None, "first contact"),
    ),
    "positions expired: on from the ledger": (
        subscription(),
        of_group({}, last_ends={P0: 10, P1: 0}),
        Starts({P0: At(10), P1: At(0)}, None, "the group's offsets vanished: on from the ledger"),
    ),
    "a new partition, under the receipt in force": (
        subscription(),
        of_group({P0: STARTS[P0]}),
        Starts({P1: Earliest()}, RECEIPT, NEW),
    ),
    "a commit that came to some partitions": (
        subscription(),
        of_group(BEHIND),
        Starts({P1: At(0)}, RECEIPT, NEW),
    ),
    "moved by somebody else: honoured, as a new incarnation": (
        subscription(),
        of_group(FOREIGN),
        Starts({P0: At(3), P1: At(0)}, None, "the group was moved by somebody else"),
    ),
    "moved, and the others go on behind what was published": (
        subscription(),
        of_group(at({P0: (3, ""), P1: (0, str(RECEIPT))}), published=BEFORE),
        Starts({P0: At(3), P1: At(4)}, None, "the group was moved by somebody else"),
    ),
    "in the lake, and the ledger was lost": (
        subscription(),
        of_group(published=BEFORE),
        OpenPublished(FROZEN, IN_THE_LAKE),
    ),
    "in the lake, and the ledger has closed it: the group was moved back": (
        subscription(),
        of_group(published=BEFORE, settled={BATCH.id: RANGES}),
        Forward(BATCH.id, RECEIPT, RANGES, None),
    ),
    "in the lake from elsewhere than the group stands": (
        subscription(),
        of_group(STARTS | {P0: Committed(12, str(RECEIPT))}, published=BEFORE, **RECORDS),
        Starts(
            {P0: At(15), P1: At(4)}, None, f"batch {BATCH.id} is published from orders-0 at 10, and the group is at 12"
        ),
    ),
    "a topic that the ledger has no id of": (
        subscription(),
        of_group(topic_ids=TWO),
        NoteTopics({"planes": "id9"}, frozenset()),
    ),
    "what was missing is found": (
        subscription(),
        of_group(missing=frozenset({"orders"})),
        NoteTopics({}, frozenset({"orders"})),
    ),
    # 3. What is read.
    "records": (subscription(), of_group(**RECORDS), OpenBatch(FROZEN)),
    "records of a batch that the ledger has closed, without output: the group was moved back": (
        subscription(),
        of_group(settled={BATCH.id: RANGES}, **RECORDS),
        Forward(BATCH.id, RECEIPT, RANGES),
    ),
    "records that aren't due yet": (
        subscription(),
        of_group(ends={P0: 10, P1: 0}, **RECORDS),
        NothingToRead("there is nothing to read"),
    ),
    "none": (subscription(), of_group(), NothingToRead("there is nothing to read")),
    "none for a day: the positions would expire": (
        subscription(),
        of_group(now=NOON + DAY),
        Recommit(RECEIPT, STARTS),
    ),
    "none, and nobody knows since when": (subscription(), of_group(committed_at=None), Recommit(RECEIPT, STARTS)),
    "none, and no positions are kept": (
        subscription(commit_strategy="ignore"),
        of_group(committed_at=None),
        NothingToRead("there is nothing to read"),
    ),
}


@pytest.mark.parametrize("row", GROUPS)
def test_a_group_without_an_open_batch(row: str) -> None:
    definition, seen, action = GROUPS[row]
    assert told(decide(definition, OUTPUT, seen)) == action


LOST: dict[str, tuple[ObservedGroup, Mapping[TopicPartition, object]]] = {
    "expired": (of_group(marks={P0: Watermarks(12, 20), P1: Watermarks(0, 0)}), {P0: Earliest(), P1: At(0)}),
    "beyond the end": (of_group(marks={P0: Watermarks(0, 5), P1: Watermarks(0, 0)}), {P0: Earliest(), P1: At(0)}),
    "created again": (
        of_group({}, last_ends={P0: 10, P1: 0}, topic_ids={"orders": "id2"}),
        {P0: Earliest(), P1: Earliest()},
    ),
}


@pytest.mark.parametrize("how", LOST)
def test_lost_positions_go_on_at_the_earliest_record_only_if_that_is_allowed(how: str) -> None:
    seen, starts = LOST[how]
    with pytest.raises(LostDataError, match="records are lost"):
        decide(subscription(), OUTPUT, seen)
    action = decide(subscription(on_data_loss="reset"), OUTPUT, seen)
    assert told(action) == Starts(starts, None, "on-data-loss: reset")
    assert isinstance(action, Anchor)
    assert {one.at for one in action.lost} == {tp for tp, start in starts.items() if start == Earliest()}


def test_a_first_contact_that_may_not_begin_anywhere_is_refused() -> None:
    with pytest.raises(LostDataError, match=r"auto\.offset\.reset is none"):
        decide(subscription(consumer={"auto_offset_reset": "none"}), OUTPUT, of_group({}, noted={}))


def test_a_topic_that_was_created_again_while_nobody_had_lost_anything_is_read_from_its_earliest() -> None:
    """A plan found it missing in between, and has said so."""
    seen = of_group({}, last_ends={P0: 10, P1: 0}, topic_ids={"orders": "id2"}, missing=frozenset({"orders"}))
    action = told(decide(subscription(), OUTPUT, seen))
    assert action == Starts(EARLIEST, None, "its topics were created again")
