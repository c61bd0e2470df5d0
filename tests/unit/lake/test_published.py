"""What readers find in a lake: which batches, in which order, and of which files."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.lake.published import published_batch, published_batches
from tidegate.model.errors import LostDataError, WrongDefinitionError
from tidegate.model.manifest import StagedFile
from tidegate.model.offsets import Range
from tidegate.model.receipt import Receipt

Put = Callable[..., None]


@pytest.fixture
def output(tmp_path: Path) -> str:
    return f"file://{tmp_path}/my lake 50% full=no"


@pytest.fixture
def put(output: str) -> Put:
    """Puts a batch into the lake: with the receipt that it was planned under, and when its manifest was written."""

    def write(batch_id: str, receipt: Receipt, at: int, **more: object) -> None:
        folder = Path(output.removeprefix("file://")) / f"batch_id={batch_id}"
        folder.mkdir(parents=True)
        document = {
            "batch_id": batch_id,
            "subscription": "flights",
            "receipt": str(receipt),
            "ranges": [{"topic": "t", "partition": 0, "start": 3, "end": 9, "records": 6}],
            "files": [],
            "rows": 5,
            "rejected": 1,
            **more,
        }
        (folder / "_manifest.json").write_text(json.dumps(document))
        os.utime(folder / "_manifest.json", (at, at))

    return write


def test_batches_come_in_the_order_of_their_commits_but_for_those_that_are_done(output: str, put: Put) -> None:
    put("b5", Receipt("later", None, 0), at=50)
    put("b2", Receipt("first", "b1", 1), at=10)
    put("b3", Receipt("first", "b2", 2), at=9)  # by a clock that was put back
    put("b1", Receipt("first", None, 0), at=11)
    found = published_batches(output)
    assert [(each.id, each.number) for each in found] == [("b1", 1), ("b2", 2), ("b3", 3), ("b5", 1)]
    assert [each.id for each in published_batches(output, {"b1", "b3", "b0"})] == ["b2", "b5"]


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ("delta+file:///x", "file:///x"),
        ("delta+s3://store@lake/x", "s3://store@lake/x"),
        ("iceberg://lake/a/b", "lake.a.b"),
        ("s3://store@lake/x", "s3://store@lake/x"),
    ],
)
def test_an_output_without_folders_says_how_its_batches_are_read(output: str, written: str) -> None:
    said = rf"no folder for each batch \({re.escape(written)}\); read a table's batches by"
    with pytest.raises(WrongDefinitionError, match=said):
        published_batches(output)


def test_a_batch_tells_its_folder_its_counts_and_its_data_files(output: str, put: Put) -> None:
    files = [{"path": "day=1/a.parquet", "bytes": 7, "checksum": "c"}, {"path": "_rejected/b.parquet", "bytes": 9}]
    put("b1", Receipt("first"), at=1, output_files=files)
    found = published_batch(output, "b1")
    assert found is not None
    assert found == published_batches(output)[0]
    assert (found.uri, found.subscription) == (f"{output}/batch_id=b1", "flights")
    assert (found.rows, found.rejected, found.ranges) == (5, 1, (Range("t", 0, 3, 9),))
    assert found.files == (StagedFile("day=1/a.parquet", 7, "c"),)


def test_of_a_batch_of_an_earlier_tidegate_the_files_arent_known(output: str, put: Put) -> None:
    put("b1", Receipt("first"), at=1)
    assert published_batches(output)[0].files is None


def test_an_output_that_isnt_there_yet_has_no_batch(output: str) -> None:
    assert published_batches(output) == []
    assert published_batch(output, "b1") is None


def test_other_folders_and_an_empty_one_are_no_batches(output: str, put: Put) -> None:
    put("b1", Receipt("first"), at=1)
    root = Path(output.removeprefix("file://"))
    for other in ("_staging", "_abandoned", "day=1", "batch_id=b2"):
        (root / other).mkdir()
    (root / "batch_id=b3").touch()
    assert [each.id for each in published_batches(output)] == ["b1"]


@pytest.mark.parametrize("manifest", [None, "{", '{"batch_id": "b2"}'])
def test_a_folder_that_only_looks_like_a_batch_is_named(output: str, manifest: str | None) -> None:
    folder = Path(output.removeprefix("file://")) / "batch_id=b2"
    folder.mkdir(parents=True)
    (folder / "part.parquet").touch()
    if manifest is not None:
        (folder / "_manifest.json").write_text(manifest)
    with pytest.raises(LostDataError, match=r"batch_id=b2 is named .* has no _manifest\.json that can be read"):
        published_batches(output)
