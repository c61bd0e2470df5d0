from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.acknowledged import Acknowledged, Acknowledgements
from tidegate.model.batch import Batch
from tidegate.model.errors import BatchFailedError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.strategies.commit.after_processing import Abandon, AlreadyCommitted, Resume
from tidegate.strategies.commit.throttled import ResumeFrom, Throttled

RECEIPT = Receipt("incarnation", None, 0)
P0, P1 = TopicPartition("my-topic", 0), TopicPartition("my-topic", 1)
RECEIVED = 12.0


def batch(*ranges: Range) -> Batch:
    return Batch(
        id=RECEIPT.batch_after("orders-lake"),
        subscription="orders",
        group="orders-lake",
        receipt=RECEIPT,
        ranges=ranges,
        shares=(tuple(r.at for r in ranges),),
        output="file:///lake",
    )


def of(at: TopicPartition, start: int, end: int) -> Range:
    return Range(*at, start, end)


def acked(landed: Sequence[int], acks: Sequence[int]) -> Acknowledged:
    gathered = Acknowledgements(P0, np.array(landed, np.int64))
    gathered.add(np.array(acks, np.int64))
    return gathered.now()


# SmallRye's CommitStrategiesTest.testThrottledStrategy, CASES, and Queue-Over-Http's autoCommitPeriodMs:
# what landed, and, one after the other, what is acknowledged between two commits and what is committed then
TABLES: Mapping[str, tuple[range | list[int], list[tuple[list[int], int | None]]]] = {
    "throttled": (range(4), [([0], 1), ([2, 1], 3), ([3], 4)]),
    "with a gap": ([42, 45], [([45], None), ([42], 46)]),
    "queue over http": (range(1, 11), [([3, 1, 10], 2), ([2, 5, 6, 4, 8], 7)]),
    # PartitionQueueTest: a hole in the middle, nothing is committed until it is closed
    "strongly ordered": (range(500), [([*range(250)], 250), ([*range(251, 499)], None), ([250], 499)]),
    "commit at the end": (range(500), [([*range(1, 500)], None), ([0], 500)]),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_contiguous_prefix_is_committed_row_by_row(name: str) -> None:
    landed, rows = TABLES[name]
    planned = batch(of(P0, min(landed), max(landed) + 1))
    gathered = Acknowledgements(P0, np.array(landed, np.int64))
    committed: dict[TopicPartition, int] = {}
    for acks, expected in rows:
        gathered.add(np.array(acks))
        found = Throttled().offsets(planned, {P0: gathered.now()}, committed)
        assert found == ({} if expected is None else {P0: expected})
        committed |= found


def test_many_records_of_two_partitions() -> None:
    """CommitStrategiesTest.testThrottledStrategyWithManyRecords: partition 1 begins at 5, so 995 records."""
    first = batch(of(P0, 0, 500), of(P1, 5, 500))
    landed = {P0: range(500), P1: range(5, 500)}
    assert sum(map(len, landed.values())) == 500 + 495
    done = {at: acked(offsets, offsets[::-1]) for at, offsets in landed.items()}
    committed = Throttled().offsets(first, done, {P0: 0, P1: 5})
    assert committed == {P0: 500, P1: 500}
    second = batch(of(P0, 500, 1500), of(P1, 500, 1500))
    more = acked(range(500, 1500), range(500, 1500))
    assert Throttled().offsets(second, {P0: more, P1: more}, committed) == {P0: 1500, P1: 1500}


def test_a_stuck_record_fails_after_its_age_and_not_before() -> None:
    """CommitStrategiesTest.testThrottledStrategyWithTooManyUnackedMessages: 1000 ms, five of partition 1 are done."""
    planned = batch(of(P0, 0, 500), of(P1, 5, 500))
    done = {P0: acked(range(500), range(500)), P1: acked(range(5, 500), range(5, 10))}
    committed = Throttled().offsets(planned, done, {P0: 0, P1: 5})
    strategy = Throttled(interval_ms=100, max_age_ms=1000)
    just = RECEIVED + 1
    strategy.check(planned, done, committed, received=RECEIVED, now=just)
    late = just + 0.001
    with pytest.raises(BatchFailedError) as failed:
        strategy.check(planned, done, committed, received=RECEIVED, now=late)
    said = str(failed.value)
    assert "subscription orders, batch b" in said
    assert "a record is unacknowledged for 1.0 s (topic my-topic, partition 1, offset 10)" in said
    assert "490 records of the partition wait" in said
    assert "last committed offset is 10" in said
    assert "throttled.unprocessed-record-max-age.ms allows 1000 ms" in said
    assert "partition 0" not in said


@pytest.mark.parametrize("max_age_ms", [0, -1])
def test_the_age_can_be_turned_off(max_age_ms: int) -> None:
    planned, nothing = batch(of(P0, 0, 2)), {P0: acked([0, 1], [])}
    now = RECEIVED + 365 * 86_400
    assert Throttled(max_age_ms=max_age_ms).overdue(planned, nothing, {}, received=RECEIVED, now=now) == ()
    assert len(Throttled().overdue(planned, nothing, {}, received=RECEIVED, now=now)) == 1


def test_what_was_committed_before_needs_no_acknowledgement_again() -> None:
    planned, done = batch(of(P0, 0, 6)), {P0: acked(range(6), [3, 4])}
    assert Throttled().offsets(planned, done, {}) == {}
    assert Throttled().offsets(planned, done, {P0: 3}) == {P0: 5}
    now = RECEIVED + 3600
    (overdue,) = Throttled().overdue(planned, done, {P0: 3}, received=RECEIVED, now=now)
    assert (overdue.offset, overdue.backlog, overdue.committed) == (5, 1, 3)


def test_a_partition_with_nothing_to_land_needs_none() -> None:
    assert Throttled().offsets(batch(of(P0, 7, 7), of(P1, 0, 2)), {P1: acked([0], [0])}, {}) == {P1: 2}


def test_a_partition_whose_acknowledgements_are_unknown_isnt_taken_for_done() -> None:
    with pytest.raises(KeyError):
        Throttled().offsets(batch(of(P0, 0, 2)), {}, {})


@given(st.data())
def test_offsets_never_go_back_and_pass_nothing_unacknowledged(data: st.DataObject) -> None:
    landed = sorted(data.draw(st.sets(st.integers(10, 40), min_size=1)))
    planned = batch(of(P0, 10, 41))
    gathered = Acknowledgements(P0, np.array(landed))
    stands, done = 10, set[int]()
    for acks in data.draw(st.lists(st.lists(st.sampled_from(landed)), max_size=6)):
        gathered.add(np.array(acks, np.int64))
        done |= set(acks)
        found = Throttled().offsets(planned, {P0: gathered.now()}, {P0: stands})
        expected = min((offset for offset in landed if offset not in done), default=41)
        assert found == ({P0: expected} if expected > stands else {})
        stands = found.get(P0, stands)
        assert all(offset in done for offset in landed if offset < stands)


def at(offset: int, receipt: Receipt) -> Committed:
    return Committed(offset, str(receipt))


PLANNED = batch(of(P0, 10, 20), of(P1, 5, 5))
NEXT = PLANNED.next_receipt
FOREIGN = Receipt("another", PLANNED.id, 1)

DECISIONS = {
    "at the starts": ({P0: at(10, RECEIPT), P1: at(5, RECEIPT)}, Resume()),
    "no positions": ({}, Resume()),
    "at the ends, by the last commit": ({P0: at(20, NEXT), P1: at(5, NEXT)}, AlreadyCommitted()),
    "a last commit that died half-way": ({P0: at(20, NEXT), P1: at(5, RECEIPT)}, Resume()),
    "in part": ({P0: at(13, RECEIPT), P1: at(5, RECEIPT)}, ResumeFrom({P0: 13, P1: 5})),
    "in part, the other position vanished": ({P0: at(13, RECEIPT)}, ResumeFrom({P0: 13, P1: 5})),
    "all acknowledged, not yet ended": ({P0: at(20, RECEIPT), P1: at(5, RECEIPT)}, ResumeFrom({P0: 20, P1: 5})),
    "behind the end, of one that had more": ({P0: at(21, RECEIPT), P1: at(5, RECEIPT)}, ResumeFrom({P0: 21, P1: 5})),
    "in part, under the batch's own receipt": ({P0: at(13, NEXT), P1: at(5, NEXT)}, ResumeFrom({P0: 13, P1: 5})),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_positions_of_our_own_are_gone_on_from(name: str) -> None:
    committed, decision = DECISIONS[name]
    assert Throttled().reconcile(PLANNED, committed) == decision


@pytest.mark.parametrize(
    "position",
    [Committed(10), Committed(13), at(13, FOREIGN), at(20, FOREIGN), at(9, RECEIPT), at(9, NEXT), at(21, NEXT)],
)
def test_whatever_isnt_ours_abandons_naming_it_alone(position: Committed) -> None:
    partly = batch(of(P0, 10, 20), of(P1, 0, 9))
    decision = Throttled().reconcile(partly, {P0: position, P1: at(5, RECEIPT)})
    assert isinstance(decision, Abandon)
    assert f"my-topic-0 was planned as [10, 20) and stands at {position.offset}" in decision.reason
    assert "my-topic-1" not in decision.reason


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=4), st.data())
def test_any_partial_commits_of_ours_can_be_gone_on_from(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    ranges = tuple(of(TopicPartition("my-topic", n), start, start + size) for n, (start, size) in enumerate(sizes))
    stands = {r.at: data.draw(st.integers(r.start, r.end)) for r in ranges}
    decision = Throttled().reconcile(batch(*ranges), {tp: at(offset, RECEIPT) for tp, offset in stands.items()})
    assert decision == (Resume() if all(stands[r.at] == r.start for r in ranges) else ResumeFrom(stands))
