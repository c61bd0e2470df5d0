"""Which batches read a record, by its place in Kafka."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.dead_letters.letter import Origin
from tidegate.dead_letters.origins import BatchesByOrigin
from tidegate.model.offsets import Range

NUMBERS = st.integers(0, 12)
RANGES = st.builds(
    lambda partition, start, size: Range("orders", partition, start, start + size), st.integers(0, 1), NUMBERS, NUMBERS
)


@given(st.lists(st.lists(RANGES, max_size=3), max_size=6), st.integers(0, 2), NUMBERS)
def test_all_that_read_it_are_found_in_whatever_order_they_did(
    batches: list[list[Range]], partition: int, offset: int
) -> None:
    found = BatchesByOrigin(enumerate(batches)).of(Origin("orders", partition, offset))
    holds = {
        number
        for number, ranges in enumerate(batches)
        if any(r.partition == partition and r.start <= offset < r.end for r in ranges)
    }
    assert set(found) == holds


def test_an_origin_that_is_not_known_is_nobodys() -> None:
    batches = BatchesByOrigin([("b1", [Range("orders", 0, 0, 9)])])
    for origin in (None, Origin("orders", None, 3), Origin("orders", 0, None), Origin("gates", 0, 3)):
        assert list(batches.of(origin)) == []
