"""Whether a Delta table that is there takes files is told before there are any."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.lake.delta.log import DeltaLog
from tidegate.model.errors import PartitioningError, WrongDefinitionError

LOG = DeltaLog(lambda _: {})


def test_where_there_is_no_table_any_files_are_taken_and_nothing_is_made(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        LOG.require_writable(f"delta+file://{folder}", ("country",))
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_held_against_what_will_be_appended(tmp_path: Path) -> None:
    table = f"delta+file://{tmp_path}"
    write_deltalake(tmp_path, pa.table({"country": ["NO"], "city": ["Oslo"], "id": [1]}), partition_by=["country"])
    LOG.require_writable(table, ("country",))
    for partition_by, named in (((), "nothing"), (("country", "city"), "city, country")):
        said = f"the Delta table is partitioned by country, the rows by {named}"
        with pytest.raises(PartitioningError, match=f"{said} .*set processing.partition-by as the table has it"):
            LOG.require_writable(table, partition_by)
    DeltaTable(tmp_path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    with pytest.raises(WrongDefinitionError, match="asks its writers for changeDataFeed, which isn't done here"):
        LOG.require_writable(table, ("country",))
