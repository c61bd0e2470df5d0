from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from definitions import subscription
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.acknowledged import Acknowledged, Acknowledgements
from tidegate.model.batch import Batch, PartialRange
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitStrategy, Progress
from tidegate.model.errors import BatchFailedError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.strategies.commit.partial_commits import PartialCommits, reached, rest_of

RECEIPT = Receipt("incarnation", None, 0)
P0, P1, P2 = (TopicPartition("my-topic", number) for number in range(3))
RECEIVED = 12.0
THROTTLED = PartialCommits(Progress.CONTIGUOUS_ACKS, max_age_ms=60_000)
LATEST = PartialCommits(Progress.HIGHEST_ACK)


def batch(*ranges: Range) -> Batch:
    return Batch(
        id=RECEIPT.batch_after("orders-lake"),
        subscription="orders",
        group="orders-lake",
        receipt=RECEIPT,
        ranges=ranges,
        shares=(tuple(r.at for r in ranges),),
        output="file:///lake",
        commit_strategy="throttled",
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
        found = THROTTLED.offsets(planned, {P0: gathered.now()}, committed)
        assert found == ({} if expected is None else {P0: expected})
        committed |= found


def test_many_records_of_two_partitions() -> None:
    """CommitStrategiesTest.testThrottledStrategyWithManyRecords: partition 1 begins at 5, so 995 records."""
    first = batch(of(P0, 0, 500), of(P1, 5, 500))
    landed = {P0: range(500), P1: range(5, 500)}
    assert sum(map(len, landed.values())) == 500 + 495
    done = {at: acked(offsets, offsets[::-1]) for at, offsets in landed.items()}
    committed = THROTTLED.offsets(first, done, {P0: 0, P1: 5})
    assert committed == {P0: 500, P1: 500}
    second = batch(of(P0, 500, 1500), of(P1, 500, 1500))
    more = acked(range(500, 1500), range(500, 1500))
    assert THROTTLED.offsets(second, {P0: more, P1: more}, committed) == {P0: 1500, P1: 1500}


def test_a_stuck_record_fails_after_its_age_and_not_before() -> None:
    """CommitStrategiesTest.testThrottledStrategyWithTooManyUnackedMessages: 1000 ms, five of partition 1 are done."""
    planned = batch(of(P0, 0, 500), of(P1, 5, 500))
    done = {P0: acked(range(500), range(500)), P1: acked(range(5, 500), range(5, 10))}
    committed = THROTTLED.offsets(planned, done, {P0: 0, P1: 5})
    strategy = PartialCommits(Progress.CONTIGUOUS_ACKS, interval_ms=100, max_age_ms=1000)
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
    unbounded = PartialCommits(Progress.CONTIGUOUS_ACKS, max_age_ms=max_age_ms)
    unbounded.check(planned, nothing, {}, received=RECEIVED, now=now)
    with pytest.raises(BatchFailedError):
        THROTTLED.check(planned, nothing, {}, received=RECEIVED, now=now)


def test_what_was_committed_before_needs_no_acknowledgement_again() -> None:
    planned, done = batch(of(P0, 0, 6)), {P0: acked(range(6), [3, 4])}
    assert THROTTLED.offsets(planned, done, {}) == {}
    assert THROTTLED.offsets(planned, done, {P0: 3}) == {P0: 5}
    now = RECEIVED + 3600
    with pytest.raises(BatchFailedError, match=r"offset 5\); 1 records .* the last committed offset is 3"):
        THROTTLED.check(planned, done, {P0: 3}, received=RECEIVED, now=now)


def test_a_partition_with_nothing_to_land_needs_none() -> None:
    assert THROTTLED.offsets(batch(of(P0, 7, 7), of(P1, 0, 2)), {P1: acked([0], [0])}, {}) == {P1: 2}


def test_a_partition_whose_acknowledgements_are_unknown_isnt_taken_for_done() -> None:
    with pytest.raises(KeyError):
        THROTTLED.offsets(batch(of(P0, 0, 2)), {}, {})


@given(st.data())
def test_offsets_never_go_back_and_pass_nothing_unacknowledged(data: st.DataObject) -> None:
    landed = sorted(data.draw(st.sets(st.integers(10, 40), min_size=1)))
    planned = batch(of(P0, 10, 41))
    gathered = Acknowledgements(P0, np.array(landed))
    stands, done = 10, set[int]()
    for acks in data.draw(st.lists(st.lists(st.sampled_from(landed)), max_size=6)):
        gathered.add(np.array(acks, np.int64))
        done |= set(acks)
        found = THROTTLED.offsets(planned, {P0: gathered.now()}, {P0: stands})
        expected = min((offset for offset in landed if offset not in done), default=41)
        assert found == ({P0: expected} if expected > stands else {})
        stands = found.get(P0, stands)
        assert all(offset in done for offset in landed if offset < stands)


class Gathering:
    """A batch of whole partitions, what was acknowledged of it, and what the group's positions are by now."""

    def __init__(self, landed: dict[TopicPartition, Sequence[int]]) -> None:
        self.batch = batch(*(Range(*at, min(ones), max(ones) + 1) for at, ones in landed.items()))
        self.gathered = {at: Acknowledgements(at, np.array(ones)) for at, ones in landed.items()}
        self.committed: dict[TopicPartition, int] = {}

    def acknowledge(self, at: TopicPartition, offset: int) -> dict[TopicPartition, int]:
        self.gathered[at].add(np.array([offset]))
        found = LATEST.offsets(self.batch, {tp: one.now() for tp, one in self.gathered.items()}, self.committed)
        self.committed |= found
        return found


def test_the_highest_acknowledged_decides_row_by_row() -> None:
    """CommitStrategiesTest.testLatestCommitStrategy."""
    world = Gathering({P0: range(4)})
    rows = [(0, 1), (1, 2), (3, 4), (2, None), (1, None)]
    for offset, expected in rows:
        assert world.acknowledge(P0, offset) == ({} if expected is None else {P0: expected})
    assert world.committed == {P0: 4}


def test_partitions_are_committed_apart() -> None:
    """The same test's partitions 1 and 2; one of which nothing is acknowledged isn't committed."""
    world = Gathering({P1: range(2), P2: range(1)})
    assert world.acknowledge(P1, 1) == {P1: 2}
    assert world.committed == {P1: 2}
    assert world.acknowledge(P2, 0) == {P2: 1}
    assert world.committed == {P1: 2, P2: 1}


def test_behind_a_gap_stands_the_next_record() -> None:
    world = Gathering({P0: [42, 45, 46]})
    assert world.acknowledge(P0, 42) == {P0: 45}
    assert world.acknowledge(P0, 46) == {P0: 47}


@given(st.data())
def test_the_highest_acknowledged_never_goes_back(data: st.DataObject) -> None:
    landed = sorted(data.draw(st.sets(st.integers(10, 40), min_size=1)))
    world, highest = Gathering({P0: landed}), -1
    for offset in data.draw(st.lists(st.sampled_from(landed), max_size=10)):
        found = world.acknowledge(P0, offset)
        behind = min((one for one in landed if one > offset), default=landed[-1] + 1)
        moves = offset > highest and behind > landed[0]
        assert found == ({P0: behind} if moves else {})
        highest = max(highest, offset)


PLANNED = batch(Range(*P0, 10, 20, 3, 4), Range(*P1, 0, 4, 1, 1))
DONE = {P0: acked([12, 13, 17], [12]), P1: acked([0, 1, 2, 3], [])}


def test_the_rest_begins_where_the_group_stands() -> None:
    rest = rest_of(PLANNED, {P0: 13, P1: 9}, DONE)
    assert rest.ranges == (Range(*P0, 13, 20), Range(*P1, 4, 4))
    assert rest.records == {P0: 2, P1: 0}


def test_what_falls_short_is_told_with_its_records_and_without_an_epoch() -> None:
    (one, other) = reached(PLANNED, DONE, {}, {P0: 13})
    assert (one, other) == (PartialRange(Range(*P0, 10, 13), 1), PartialRange(Range(*P1, 0, 0), 0))
    assert (one.range.start_epoch, one.range.end_epoch) == (3, None)


def test_a_partition_that_was_brought_to_its_end_isnt_told() -> None:
    assert [one.range.at for one in reached(PLANNED, DONE, {P1: 4}, {P0: 13, P1: 4})] == [P0]
    assert reached(PLANNED, DONE, {}, {P0: 20, P1: 4}) == ()


@pytest.mark.parametrize("ends", [{}, {P0: 12}, {P0: 10, P1: 0}])
def test_a_gap_alone_is_no_progress(ends: dict[TopicPartition, int]) -> None:
    with pytest.raises(BatchFailedError, match=r"handed 7 records, .* throttled could commit: .* offset 13"):
        reached(PLANNED, DONE, {}, ends)


def test_where_nothing_is_left_nothing_has_to_be_acknowledged() -> None:
    assert reached(PLANNED, DONE, {P0: 20, P1: 4}, {P0: 20, P1: 4}) == ()


EXPECTED = {
    Progress.CONTIGUOUS_ACKS: PartialCommits(Progress.CONTIGUOUS_ACKS, interval_ms=3, max_age_ms=7),
    Progress.HIGHEST_ACK: PartialCommits(Progress.HIGHEST_ACK, interval_ms=3),
    Progress.WHOLE_BATCH: None,
}


@pytest.mark.parametrize("strategy", COMMIT_POLICIES)
def test_they_are_those_of_the_batchs_own_strategy_with_the_definitions_properties(strategy: CommitStrategy) -> None:
    expected = EXPECTED[COMMIT_POLICIES[strategy].progress]
    described = subscription(commit_strategy="manual", auto_commit_interval_ms=3, unprocessed_record_max_age_ms=7)
    assert PartialCommits.of(replace(PLANNED, commit_strategy=strategy), described) == expected
