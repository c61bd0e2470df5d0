from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.acknowledged import Acknowledgements
from tidegate.model.batch import Batch
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.strategies.commit.after_processing import Abandon, AlreadyCommitted, Resume
from tidegate.strategies.commit.latest import Latest
from tidegate.strategies.commit.throttled import ResumeFrom

RECEIPT = Receipt("incarnation", None, 0)
P0, P1, P2 = (TopicPartition("my-topic", number) for number in range(3))


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


class Gathering:
    """A batch of whole partitions, what was acknowledged of it, and what the group's positions are by now."""

    def __init__(self, landed: dict[TopicPartition, Sequence[int]]) -> None:
        self.batch = batch(*(Range(*at, min(ones), max(ones) + 1) for at, ones in landed.items()))
        self.gathered = {at: Acknowledgements(at, np.array(ones)) for at, ones in landed.items()}
        self.committed: dict[TopicPartition, int] = {}

    def acknowledge(self, at: TopicPartition, offset: int) -> dict[TopicPartition, int]:
        self.gathered[at].add(np.array([offset]))
        found = Latest().offsets(self.batch, {tp: one.now() for tp, one in self.gathered.items()}, self.committed)
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
def test_offsets_never_go_back(data: st.DataObject) -> None:
    landed = sorted(data.draw(st.sets(st.integers(10, 40), min_size=1)))
    world, highest = Gathering({P0: landed}), -1
    for offset in data.draw(st.lists(st.sampled_from(landed), max_size=10)):
        found = world.acknowledge(P0, offset)
        behind = min((one for one in landed if one > offset), default=landed[-1] + 1)
        moves = offset > highest and behind > landed[0]
        assert found == ({P0: behind} if moves else {})
        highest = max(highest, offset)


def test_reconciling_goes_on_from_what_was_committed_in_part() -> None:
    planned = batch(Range(*P0, 10, 20), Range(*P1, 5, 5))
    start, end = str(RECEIPT), str(planned.next_receipt)
    reconcile = Latest().reconcile
    assert reconcile(planned, {P0: Committed(10, start), P1: Committed(5, start)}) == Resume()
    assert reconcile(planned, {P0: Committed(17, start), P1: Committed(5, start)}) == ResumeFrom({P0: 17, P1: 5})
    assert reconcile(planned, {P0: Committed(20, end), P1: Committed(5, end)}) == AlreadyCommitted()
    assert isinstance(reconcile(planned, {P0: Committed(17), P1: Committed(5, start)}), Abandon)
