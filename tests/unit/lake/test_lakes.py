"""Each output goes to the lake of its format, which is made when the first one needs it."""

from typing import Any

import pytest

from tidegate.lake.lakes import Lakes
from tidegate.model.batch import Batch, Delivery
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.manifest import Counts, Manifest, Result
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.runtime.lakes import lakes
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.lake import MemoryLake, StagedAttempt

FILES, TABLES = "file:///lake", "delta+file:///tables"
BATCH = "b00000000000000000001"


class Making:
    """Makes a lake, and counts how often."""

    def __init__(self, lake: MemoryLake) -> None:
        self.lake, self.made = lake, 0

    def __call__(self) -> MemoryLake:
        self.made += 1
        return self.lake


def of(manifest: Manifest) -> Receipt:
    return manifest.batch.next_receipt


def staged(lake: MemoryLake, output: str) -> Manifest:
    """A delivery to an output, with one attempt."""
    batch = Batch(
        id=BATCH,
        subscription="flights",
        group="g",
        receipt=Receipt("inc"),
        ranges=(Range("t", 0, 0, 3),),
        shares=((TopicPartition("t", 0),),),
        output=output,
        partition_by=(),
    )
    manifest = Manifest(batch, Delivery(1, "1" * 32), None, "strict", f"{output}/_staging/{BATCH}-{'1' * 32}")
    result = Result(BATCH, "1" * 32, "a", read=3, filtered=0, files=(), rejected_files=())
    lake.stage(manifest.staging, "a", StagedAttempt(result, Counts(3, 0)))
    return manifest


def test_a_batch_is_published_in_the_lake_of_its_output_alone() -> None:
    files, tables = Making(MemoryLake()), Making(MemoryLake())
    both = Lakes({"file": files, "hdfs": files, "delta+file": tables})
    manifest = staged(tables.lake, TABLES)
    both.publish(manifest, "a")
    assert both.published(TABLES, of(manifest)) is not None
    assert both.published_ids(TABLES, [BATCH]) == {BATCH}
    assert both.published(FILES, of(manifest)) is None
    assert list(tables.lake.published_attempts) == [(TABLES, BATCH)]
    assert files.lake.published_attempts == {}


def test_a_lake_is_made_once_and_only_when_an_output_needs_it() -> None:
    files, tables = Making(MemoryLake()), Making(MemoryLake())
    both = Lakes({"file": files, "hdfs": files, "delta+file": tables})
    receipt = Receipt("inc", BATCH, 1)
    for output in (FILES, "hdfs://name/lake", FILES):
        assert both.published(output, receipt) is None
    assert (files.made, tables.made) == (1, 0)


def test_what_is_staged_and_given_up_is_that_of_the_outputs_lake() -> None:
    files, tables = MemoryLake(), MemoryLake()
    both = Lakes({"file": lambda: files, "delta+file": lambda: tables})
    manifest = staged(tables, TABLES)
    assert both.staged_folders(TABLES) == {BATCH: {manifest.staging}}
    assert both.staged_folders(FILES) == {}
    both.set_aside(TABLES, of(manifest))
    assert tables.staged == {}


@pytest.mark.parametrize("output", ["s3://lake/flights", "iceberg://lake/a/b", "ftp://x/y"])
def test_an_output_that_no_lake_has_is_refused(output: str) -> None:
    manifest = staged(MemoryLake(), output)
    here = Lakes({"file": MemoryLake})
    asked: list[Any] = [
        lambda: here.published(output, of(manifest)),
        lambda: here.published_ids(output, [BATCH]),
        lambda: here.rejected(output, of(manifest)),
        lambda: here.publish(manifest, "a"),
        lambda: here.staged_folders(output),
        lambda: here.set_aside(output, of(manifest)),
    ]
    for each in asked:
        with pytest.raises(WrongDefinitionError, match=f"in {output}: change processing.format or processing.output"):
            each()


def test_folders_of_this_machine_have_a_lake() -> None:
    receipt = Receipt("inc", BATCH, 1)
    assert lakes(MemoryConnections()).published("file:///there/is/none", receipt) is None
