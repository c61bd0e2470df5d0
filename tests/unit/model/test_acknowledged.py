from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.acknowledged import Acknowledged, Acknowledgements
from tidegate.model.errors import BatchFailedError
from tidegate.model.offsets import Range, TopicPartition

P0 = TopicPartition("orders", 0)


def settled(landed: Sequence[int], *chunks: Sequence[int]) -> Acknowledged:
    gathered = Acknowledgements(P0, np.array(landed, np.int64))
    for chunk in chunks:
        gathered.add(np.array(chunk, np.int64))
    return gathered.now()


def of(start: int, end: int) -> Range:
    return Range(*P0, start, end)


# offsets that landed, chunks of acknowledgements, the range -> throttled, latest, backlog
TABLE = [
    ([0, 1, 2, 3], [], (0, 4), (0, 0, 4)),
    ([0, 1, 2, 3], [[2], [1]], (0, 4), (0, 3, 2)),
    ([0, 1, 2, 3], [[3, 2, 1, 0]], (0, 4), (4, 4, 0)),
    ([42, 45], [[42, 45]], (40, 46), (46, 46, 0)),  # gaps
    ([42, 45], [[42]], (40, 46), (45, 45, 1)),  # the next record's offset, not the next offset
    ([42, 45], [[45]], (40, 46), (42, 46, 1)),
    ([42, 45], [[42, 45]], (40, 50), (50, 50, 0)),  # markers at the end
    ([42, 45], [], (40, 50), (42, 40, 2)),  # markers at the start
    ([], [], (40, 50), (50, 50, 0)),  # nothing but markers
    ([42, 45], [[42, 42], [42]], (40, 46), (45, 45, 1)),  # repeated
    ([1, 2, 3, 4], [[4]], (3, 5), (3, 5, 1)),  # what lies before the range doesn't count
    ([1, 2, 3, 4], [[4], [1, 2]], (1, 4), (3, 3, 1)),  # nor what lies behind it
    ([1, 2], [[1, 2]], (2, 2), (2, 2, 0)),
]


@pytest.mark.parametrize(("landed", "chunks", "within", "expected"), TABLE)
def test_positions_and_backlog(
    landed: list[int], chunks: list[list[int]], within: tuple[int, int], expected: tuple[int, int, int]
) -> None:
    found, asked = settled(landed, *chunks), of(*within)
    assert (found.prefix(asked), found.latest(asked), found.backlog(asked)) == expected


def test_the_oldest_is_the_first_that_isnt_acknowledged() -> None:
    assert settled([3, 5, 9], [3, 9]).oldest(of(0, 10)) == 5
    assert settled([3, 5, 9], [3, 5, 9]).oldest(of(0, 10)) is None
    assert settled([3, 5, 9]).oldest(of(4, 10)) == 5


@pytest.mark.parametrize("wrong", [4, -1, 10, 2**62])
def test_a_record_that_did_not_land_is_refused_by_name_and_its_chunk_with_it(wrong: int) -> None:
    gathered = Acknowledgements(P0, np.array([3, 5, 9]))
    with pytest.raises(BatchFailedError, match=rf"didn\'t land.*topic orders, partition 0, offset {wrong}\)"):
        gathered.add(np.array([3, wrong]))
    assert gathered.now().backlog(of(0, 10)) == 3


def test_any_acknowledgement_is_wrong_where_nothing_landed() -> None:
    with pytest.raises(BatchFailedError, match="offset 0"):
        settled([], [0])


def test_what_was_asked_for_stays_as_it_was() -> None:
    gathered = Acknowledgements(P0, np.array([3, 5, 9]))
    before = gathered.now()
    gathered.add(np.array([3]))
    assert before.prefix(of(0, 10)) == 3
    assert gathered.now().prefix(of(0, 10)) == 5


@pytest.mark.parametrize("landed", [[3, 2], [3, 3]])
def test_landed_offsets_ascend(landed: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        settled(landed)


@given(st.data())
def test_against_a_set(data: st.DataObject) -> None:
    landed = sorted(data.draw(st.sets(st.integers(0, 40), max_size=20)))
    chunks = data.draw(st.lists(st.lists(st.sampled_from(landed)), max_size=4)) if landed else []
    start = data.draw(st.integers(0, 41))
    within = of(start, data.draw(st.integers(start, 41)))
    found = settled(landed, *chunks)
    done = {offset for chunk in chunks for offset in chunk}
    inside = [offset for offset in landed if within.start <= offset < within.end]
    waiting = [offset for offset in inside if offset not in done]
    assert (found.backlog(within), found.records(within)) == (len(waiting), len(inside))
    assert found.prefix(within) == min(waiting, default=within.end)
    highest = max((offset for offset in inside if offset in done), default=None)
    if highest is not None:
        assert found.latest(within) == min((offset for offset in inside if offset > highest), default=within.end)
    else:
        assert found.latest(within) == (within.start if inside else within.end)
    assert found.latest(within) >= found.prefix(within) or highest is None
