"""An output of each format, written by the engine's own lakes, as the audit sees it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.draws import Target
from chaos.kinds import PLAIN
from chaos.others import Others
from chaos.outputs import Output
from chaos.rejecting import RejectingProcessor
from chaos.tasks import Place
from tidegate.config import reading
from tidegate.config.outputs import output_uri
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.batch import Batch, Delivery
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.output_uri import OutputFormat
from tidegate.model.receipt import Receipt
from tidegate.runtime.lakes import lakes
from tidegate.testing.connections import MemoryConnections

FORMATS: tuple[OutputFormat, ...] = ("parquet", "delta", "iceberg")
TABLE: Target = "table"


class Desk:
    """A subscription's place, and the steps of its batches that write."""

    def __init__(self, folder: Path, written_as: OutputFormat) -> None:
        self.place = Place(folder, "", f"sqlite:///{folder}/catalog.db", kind=PLAIN.published_as(written_as))
        self.place.definition.write_text(self.place.kind.definition(2000), encoding="utf-8")
        self.uri = output_uri(folder, reading.load(self.place.definition).processing)
        self.lake = lakes(MemoryConnections(self.place.catalog))

    @property
    def output(self) -> Output:
        return self.place.output

    def staged(self, number: int, *values: int) -> tuple[Manifest, str]:
        """A delivery, and its attempt, which rejects what 3 divides."""
        landed = self.place.folder / f"landed-{number}.parquet"
        columns: dict[str, Any] = {
            "topic": ["numbers"] * len(values),
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(values, pa.int64()),
            "timestamp": pa.array(values, pa.timestamp("ms", "UTC")),
            "value": [str(value).encode() for value in values],
        }
        pq.write_table(pa.table(columns), landed)
        batch = Batch(
            id=f"b{number:020x}",
            subscription="numbers",
            group="g",
            receipt=Receipt("inc", None, number - 1),
            ranges=(Range("numbers", 0, min(values), max(values) + 1),),
            shares=((TopicPartition("numbers", 0),),),
            output=self.uri,
            partition_by=(),
            records={TopicPartition("numbers", 0): len(values)},
            files=(),
        )
        token = f"{number:032x}"
        manifest = Manifest(batch, Delivery(1, token), "m:f", "strict", self.lake.staging_of(self.uri, batch.id, token))
        self.lake.prepare(manifest)
        told = self.place.folder / f"manifest-{number}.json"
        told.write_text(json.dumps(json.loads(manifest.to_json()) | {"files": [{"uri": f"file://{landed}"}]}))
        RejectingProcessor(3, 3).run(f"file://{told}", None, lambda _: None, lambda: None)
        (result,) = StagedFiles().results(manifest.staging)
        return manifest, result.attempt

    def publish(self, number: int, *values: int) -> None:
        manifest, attempt = self.staged(number, *values)
        (result,) = StagedFiles().results(manifest.staging)
        counts = StagedFiles().seal(manifest.staging, result)
        sealed = Batch(**{**_fields(manifest.batch), "seal": counts.seal, "rows": counts.written})
        self.lake.publish(Manifest(sealed, manifest.delivery, "m:f", "strict", manifest.staging), attempt)
        self.lake.remove_staged(self.uri, self.lake.staged_folders(self.uri).get(sealed.id, frozenset()))


def _fields(batch: Batch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in batch.__slots__}


@pytest.fixture(params=FORMATS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return Desk(tmp_path, request.param)


def offsets(rows: pa.Table | None) -> list[int]:
    assert rows is not None
    return sorted(rows["offset"].to_pylist())


def test_there_is_nothing_at_first(desk: Desk) -> None:
    output = desk.output
    assert (output.rows(["offset"]), output.rejected(["offset"]), output.batches()) == (None, None, {})
    assert (output.staged(), output.joined()) == ([], [])


def test_a_reader_sees_what_is_published_and_what_that_rejected(desk: Desk) -> None:
    desk.publish(1, 1, 2, 3)
    desk.publish(2, 4, 5, 6)
    desk.staged(3, 7, 8, 9)
    output = desk.output
    assert offsets(output.rows(["partition", "offset"])) == [1, 2, 4, 5]
    assert offsets(output.rejected(["offset"])) == [3, 6]
    found = {name: (ranges, offsets(rows)) for name, (ranges, rows) in output.batches().items()}
    assert found == {f"b{1:020x}": ({0: (1, 4)}, [1, 2]), f"b{2:020x}": ({0: (4, 7)}, [4, 5])}


def test_what_nobody_published_is_told(desk: Desk) -> None:
    desk.publish(1, 1, 2)
    assert desk.output.staged() == []
    manifest, attempt = desk.staged(2, 4, 5)
    assert any(f"b{2:020x}" in path for path in desk.output.staged())
    staging = Path(manifest.staging.removeprefix("file://"))
    assert staging.parent == desk.output.staging()
    assert (staging / attempt).is_dir()


@pytest.mark.parametrize("written_as", [each for each in FORMATS if each != "parquet"])
def test_others_write_and_their_rows_are_counted(written_as: OutputFormat, tmp_path: Path) -> None:
    desk = Desk(tmp_path, written_as)
    others = Others([desk.place])
    others.faults[TABLE].begin()
    desk.publish(1, 1, 2)
    for _ in range(2):
        others.faults[TABLE].begin()
    desk.publish(2, 4, 5)
    assert offsets(desk.output.rows(["offset"])) == [1, 2, 4, 5]
    assert desk.output.staged() == []
    assert len(desk.output.joined()) >= 2
    assert others.audit().is_clean
    others.appended[PLAIN.name].add("theirs-99")
    assert others.audit().losses == 1


def test_nobody_else_writes_into_folders(tmp_path: Path) -> None:
    assert Others([Desk(tmp_path, "parquet").place]).faults == {}
