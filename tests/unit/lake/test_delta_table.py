"""A log that expires under its reader is told from one that can't be read."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from running import until

from tidegate.lake.delta.table import is_expired

ROWS = pa.table({"x": [1]})


def committed(folder: Path) -> DeltaTable:
    write_deltalake(folder, ROWS, mode="append", configuration={"delta.logRetentionDuration": "interval 0 seconds"})
    return DeltaTable(folder)


def log_of(folder: Path) -> list[str]:
    return sorted(each.name for each in (folder / "_delta_log").glob("*.json"))


def expired_log(folder: Path) -> DeltaTable:
    """A table as it was opened before every commit that it was read from has left the log."""
    stale = committed(folder)
    newest = committed(folder)
    newest.create_checkpoint()

    def is_one_left() -> bool:
        newest.cleanup_metadata()
        return len(log_of(folder)) == 1

    until(is_one_left, "the log doesn't expire", 20)
    return stale


def test_what_was_being_read_has_left_the_log(tmp_path: Path) -> None:
    stale = expired_log(tmp_path)
    for read in (stale.vacuum, stale.create_checkpoint):
        with pytest.raises((DeltaError, OSError)) as raised:
            read()
        assert is_expired(raised.value), raised.value


def test_a_log_that_cant_be_read(tmp_path: Path) -> None:
    committed(tmp_path)
    (tmp_path / "_delta_log" / log_of(tmp_path)[0]).write_text("{")
    with pytest.raises(DeltaError) as raised:
        DeltaTable(tmp_path)
    assert not is_expired(raised.value), raised.value
