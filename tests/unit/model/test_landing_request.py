"""What a landing job left is held against its order: every record once, within its range, counted in the files."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.batch import LandedFile
from tidegate.model.errors import BatchFailedError
from tidegate.model.landing_request import JobLanding, LandingRequest, OffsetRun, account
from tidegate.model.offsets import Range, TopicPartition

AT, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
ORDER = LandingRequest("f:///o", "flights", "b1", "f:///a", (Range(*AT, 10, 30, 1, 1), Range(*OTHER, 5, 9)), 1000)


def left(*stretches: OffsetRun, said: int | None = None) -> JobLanding:
    files = tuple(LandedFile(one.uri, one.records, 100) for one in stretches)
    return JobLanding(sum(one.records for one in stretches) if said is None else said, files, stretches)


def test_the_ranges_are_those_of_the_order_and_the_records_those_of_the_files() -> None:
    found = left(
        OffsetRun("p2", AT, 5, 20, 29), OffsetRun("p1", AT, 10, 10, 19), OffsetRun("p3", OTHER, 1, 8, 8), said=16
    )
    landed = account(ORDER, found)
    assert landed.ranges == ORDER.ranges
    assert [(r.start_epoch, r.end_epoch) for r in landed.ranges] == [(1, None), (None, None)]
    assert landed.records == {AT: 15, OTHER: 1}
    assert landed.files == found.files


def test_a_range_without_records_is_read_and_a_file_without_any_isn_t_named() -> None:
    landed = account(ORDER, JobLanding(0, (LandedFile("p0", 0, 9),), ()))
    assert (landed.ranges, landed.records, landed.files) == (ORDER.ranges, {AT: 0, OTHER: 0}, ())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            left(OffsetRun("p1", AT, 5, 10, 19), said=6),
            r"wrote 6 records, and 5 lie in f:///a \(.*\); .* all of Spark's machines",
        ),
        (left(OffsetRun("p1", AT, 5, 10, 19), said=4), "wrote 4 records, and 5 lie"),
        (left(OffsetRun("p1", AT, 1, 9, 9)), r"flights-0 \[9, 10\) in p1, which it wasn't ordered"),
        (left(OffsetRun("p1", AT, 2, 29, 30)), r"flights-0 \[29, 31\) in p1, which it wasn't ordered"),
        (left(OffsetRun("p1", TopicPartition("other", 0), 1, 10, 10)), "other-0 .*, which it wasn't ordered"),
        (left(OffsetRun("p1", AT, 5, 10, 15), OffsetRun("p2", AT, 5, 15, 19)), "records twice: .* in p1 and .* in p2"),
        (left(OffsetRun("p1", AT, 3, 10, 11)), "3 records as flights-0"),
    ],
    ids=["too few", "too many", "before", "behind", "another partition", "twice", "more than offsets"],
)
def test_what_does_not_add_up_is_named(found: JobLanding, said: str) -> None:
    with pytest.raises(BatchFailedError, match=said) as caught:
        account(ORDER, found)
    assert "(subscription flights, batch b1)" in str(caught.value)


@given(offsets=st.sets(st.integers(10, 29), min_size=1), cuts=st.sets(st.integers(10, 29)))
def test_whatever_gaps_a_range_has_each_record_counts_once(offsets: set[int], cuts: set[int]) -> None:
    parts = [
        sorted(o for o in offsets if first <= o < end)
        for first, end in zip([0, *sorted(cuts)], [*sorted(cuts), 99], strict=True)
    ]
    stretches = [OffsetRun(f"p{n}", AT, len(part), part[0], part[-1]) for n, part in enumerate(parts) if part]
    assert account(ORDER, left(*stretches)).records[AT] == len(offsets)
    twice = replace(stretches[0], uri="again")
    with pytest.raises(BatchFailedError, match="twice"):
        account(ORDER, left(*stretches, twice))
