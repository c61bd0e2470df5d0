from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.lake.delta.history import content_version
from tidegate.lake.delta.table import DeltaHandle
from tidegate.model.errors import UnavailableError


class Expiring(DeltaTable):
    """A table whose log is cleaned so many times while its history is read."""

    cleanups = 0

    def history(self, limit=None):
        if self.cleanups:
            self.cleanups -= 1
            raise FileNotFoundError("Object at location _delta_log/00000000000000000001.json not found")
        return super().history(limit)


@pytest.fixture
def table(tmp_path: Path) -> Expiring:
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    return Expiring(tmp_path)


@pytest.mark.parametrize("restored", [None, 0, 2])
def test_a_commit_that_expires_while_the_history_is_read_is_no_error(table: Expiring, restored: int | None) -> None:
    if restored is not None:
        table.restore(restored)
    table.cleanups = 2
    content = content_version(DeltaHandle(table, table.version(), "a", recorded=1))
    assert content == (table.version() if restored is None else restored)


def test_a_history_that_never_stays_is_unavailable(table: Expiring) -> None:
    table.cleanups = 100
    with pytest.raises(UnavailableError, match="changed while its history was read"):
        content_version(DeltaHandle(table, table.version(), "a", recorded=1))
