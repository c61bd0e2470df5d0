from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.landing.framings import framings_of
from tidegate.schemas.wire_format import message_path

framed = st.builds(lambda number, rest: b"\x00" + number.to_bytes(4, "big") + rest, st.integers(0, 3), st.binary())
indexed = st.builds(
    lambda head, indexes, rest: head + b"".join(bytes([2 * i]) for i in (len(indexes), *indexes)) + rest,
    st.sampled_from([b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x02"]),
    st.lists(st.integers(0, 3), max_size=4),
    st.binary(max_size=3),
)
contents = st.lists(st.none() | st.binary(max_size=9) | framed | indexed, max_size=30)


@given(contents, st.integers(0, 5))
def test_framings_are_the_first_five_bytes_behind_a_zero(values: Sequence[bytes | None], skipped: int) -> None:
    array = pa.array(values, pa.binary())[skipped:]  # a slice has its offsets elsewhere
    expected = Counter(v[:5] for v in values[skipped:] if v and len(v) >= 5 and v[0] == 0)
    assert dict(framings_of(array, indexed=False)) == expected


@given(contents)
@example([b"\x00\x00\x00\x00\x01\xff\xff\xff\xff\x0f"])
@example([b"\x00\x00\x00\x00\x01\x80\x80\x80\x80\x80\x00"])
def test_indexed_framings_end_with_their_last_index(values: Sequence[bytes | None]) -> None:
    found = dict(framings_of(pa.array(values, pa.binary()), indexed=True))
    assert found == Counter(prefix for value in values if value and (prefix := one_by_one(value)))


def one_by_one(value: bytes) -> bytes | None:
    """The same, of one value and the slow way."""
    if len(value) < 6 or value[0] != 0:
        return None
    for end in range(6, len(value) + 1):
        try:
            message_path(value[:end])
        except ValueError:
            continue
        return value[:end]
    return None
