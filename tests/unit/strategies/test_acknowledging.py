from collections.abc import Sequence

import numpy as np
import pytest

from tidegate.model.acknowledged import Acknowledged, Acknowledgements
from tidegate.model.batch import Batch, PartialRange
from tidegate.model.errors import BatchFailedError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.strategies.commit.acknowledging import reached, rest_of

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def batch(*ranges: Range) -> Batch:
    return Batch(
        id="b1",
        subscription="orders",
        group="orders-lake",
        receipt=Receipt("incarnation"),
        ranges=ranges,
        shares=(tuple(r.at for r in ranges),),
        output="file:///lake",
        commit_strategy="throttled",
    )


def acked(landed: Sequence[int], acks: Sequence[int]) -> Acknowledged:
    gathered = Acknowledgements(P0, np.array(landed, np.int64))
    gathered.add(np.array(acks, np.int64))
    return gathered.now()


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
