"""What earlier deliveries were answered is in the next one's log as it was, however little of it is left."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.http.delivery_log import DeliveryLog, delivered, within
from tidegate.model.offsets import Range, TopicPartition
from tidegate.parquet.ack_logs import ack_line

_END = 6
ANSWERED = st.dictionaries(st.integers(0, 3), st.sets(st.integers(0, _END - 1), min_size=1), min_size=1)
BEGUN = st.dictionaries(st.integers(0, 3), st.integers(0, _END))


def carried(folder: Path, answered: Mapping[int, set[int]], begun: Mapping[int, int]) -> str:
    """What a delivery's log has that begins with what is left of an earlier one."""
    earlier = folder / "one" / "attempt" / "_acks"
    earlier.mkdir(parents=True)
    (earlier / "000000.csv").write_text(lines(answered, {}))
    ranges = [Range("orders", partition, start, _END) for partition, start in begun.items()]
    with DeliveryLog(folder / "two" / "attempt") as log:
        log.carry_over(within(delivered([folder / "one"]), ranges))
    return "".join(file.read_text() for file in log.files)


def lines(answered: Mapping[int, set[int]], begun: Mapping[int, int]) -> str:
    places = [(p, offset) for p in sorted(answered) for offset in sorted(answered[p]) if offset >= begun.get(p, 0)]
    return "".join(
        ack_line(TopicPartition("orders", partition), offset, status=200, attempts=1, answered=1_795_822_764_184)
        for partition, offset in places
    )


@given(ANSWERED, BEGUN)
def test_what_is_left_of_each_partition_is_carried_over_and_nothing_else(
    answered: dict[int, set[int]], begun: dict[int, int]
) -> None:
    with TemporaryDirectory() as folder:
        found = carried(Path(folder), answered, begun)
    read = {partition: offsets for partition, offsets in answered.items() if partition in begun}
    assert sorted(found.splitlines()) == sorted(lines(read, begun).splitlines())


@pytest.mark.parametrize("begun", [{0: _END, 1: 0}, {0: 0, 1: _END}])
def test_a_partition_of_which_nothing_is_left_leaves_nothing(tmp_path: Path, begun: dict[int, int]) -> None:
    """PyArrow writes what its buffer has for an empty part of a table: zeros, or what it wrote before."""
    answered = {0: {1, 2}, 1: {3, 4}}
    assert carried(tmp_path, answered, begun) == lines(answered, begun)
