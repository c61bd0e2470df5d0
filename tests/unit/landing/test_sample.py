"""One landed record, found by its place."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from landed import LANDING, Record

from tidegate.landing.sample import landed_record
from tidegate.model.errors import UnavailableError
from tidegate.model.offsets import TopicPartition

AT = TopicPartition("flights", 0)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    uris = []
    for number in range(2):
        rows = [Record(b"v%d" % at, None, [("h", None)]).row(at) for at in range(number * 10, number * 10 + 5)]
        pq.write_table(pa.Table.from_pylist(rows, LANDING), tmp_path / f"{number}.parquet", row_group_size=2)
        uris.append(f"file://{tmp_path}/{number}.parquet")
    return uris


def test_the_record_of_a_place_is_found_in_any_of_the_files(files: list[str]) -> None:
    found = landed_record(files, (AT, 12))
    assert found is not None
    assert (found.at, found.offset, found.key, found.value, found.headers) == (AT, 12, None, b"v12", (("h", None),))
    assert landed_record(files, (AT, 7)) is None
    assert landed_record(files, (TopicPartition("flights", 1), 12)) is None


def test_without_a_place_it_is_the_first(files: list[str]) -> None:
    found = landed_record(files, None)
    assert found is not None
    assert found.offset == 0


def test_a_file_that_is_gone_or_damaged_is_unavailable(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_text("no Parquet")
    for uri in (f"file://{tmp_path}/nothing.parquet", files[1]):
        with pytest.raises(UnavailableError, match="can't be read here"):
            landed_record([uri], None)
