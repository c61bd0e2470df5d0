"""What a subscription has published, as a reader of its format sees it, whatever the engine says of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from tidegate.model.output_uri import OutputFormat

Ranges = Mapping[int, tuple[int, int]]
THEIRS = "theirs-"
"""What the batches of rows begin with that others write into a table."""


@dataclass(frozen=True, slots=True)
class Where:
    """An output: its folder, below which folder all is, and the database of the catalog."""

    home: Path
    name: str
    catalog: str


class Output(Protocol):
    """An output of any format. A batch is read by its id; there may be nothing yet."""

    def rows(self, columns: Sequence[str]) -> pa.Table | None:
        """These columns of all rows that a subscription wrote; None where nothing was ever published."""
        ...

    def rejected(self, columns: Sequence[str]) -> pa.Table | None:
        """These columns of the records that published batches rejected; None for none."""
        ...

    def batches(self) -> Mapping[str, tuple[Ranges, pa.Table | None]]:
        """By batch: the half-open range of each partition that its manifest has, and its partitions and offsets."""
        ...

    def staged(self) -> list[str]:
        """What lies beside the published, and belongs to nothing that is."""
        ...

    def staging(self) -> Path:
        """The folder that has the staging folders."""
        ...

    def join(self, batch_id: str) -> bool:
        """Write as others do who know nothing of the subscription: a row of this batch, and maintenance.

        False where there is nothing yet to write to.
        """
        ...

    def joined(self) -> list[str]:
        """The batches of the rows that others wrote."""
        ...


class Folders:
    """Parquet folders, one for each batch, to which nobody else writes."""

    def __init__(self, where: Where) -> None:
        self._lake = where.home / where.name

    def rows(self, columns: Sequence[str]) -> pa.Table | None:
        """See `Output`."""
        return read_files(sorted(self._lake.glob("batch_id=*/*.parquet")), columns)

    def rejected(self, columns: Sequence[str]) -> pa.Table | None:
        """See `Output`."""
        return read_files(sorted(self._lake.glob("batch_id=*/_rejected/*.parquet")), columns)

    def batches(self) -> Mapping[str, tuple[Ranges, pa.Table | None]]:
        """See `Output`."""
        return {
            folder.name.removeprefix("batch_id="): (
                ranges_in((folder / "_manifest.json").read_text(encoding="utf-8")),
                read_files(sorted(folder.glob("*.parquet")), ["partition", "offset"]),
            )
            for folder in self._lake.glob("batch_id=*")
        }

    def staged(self) -> list[str]:
        """See `Output`."""
        return [str(path) for below in ("_staging", "_abandoned") for path in self._lake.glob(f"{below}/*")]

    def staging(self) -> Path:
        """See `Output`."""
        return self._lake / "_staging"

    def join(self, batch_id: str) -> bool:  # noqa: ARG002 (a batch is what the engine has renamed)
        """See `Output`; nobody may."""
        return False

    def joined(self) -> list[str]:
        """See `Output`."""
        return []


def read_files(files: Sequence[Path], columns: Sequence[str]) -> pa.Table | None:
    """These columns of Parquet files; None without files."""
    return ds.dataset([str(file) for file in files]).to_table([*columns]) if files else None


def ranges_in(manifest: str) -> Ranges:
    """The half-open range of each partition that a manifest names."""
    return {r["partition"]: (r["start"], r["end"]) for r in json.loads(manifest)["ranges"]}


def last_written(path: Path) -> datetime:
    """When a file, or anything in a folder, was written last."""
    every = [path, *path.rglob("*")] if path.is_dir() else [path]
    return datetime.fromtimestamp(max(each.stat().st_mtime for each in every), UTC)


def output_at(where: Where, written_as: OutputFormat) -> Output:
    """The output of this format."""
    return _OUTPUTS[written_as](where)


def _delta(where: Where) -> Output:
    from chaos.tables import DeltaFolder  # noqa: PLC0415 (takes its time, if wanted at all)

    return DeltaFolder(where)


def _iceberg(where: Where) -> Output:
    from chaos.tables import CatalogTable  # noqa: PLC0415 (takes its time, if wanted at all)

    return CatalogTable(where)


_OUTPUTS: Mapping[OutputFormat, Callable[[Where], Output]] = {
    "parquet": Folders,
    "delta": _delta,
    "iceberg": _iceberg,
}
