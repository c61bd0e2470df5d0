"""Flipping: one byte of a batch changes on its disk, and whoever reads it must notice."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from chaos.tasks import Place
from tidegate.model.batch import LandedFile
from tidegate.model.errors import CorruptFileError
from tidegate.parquet.verifying import verify


def landed_files(place: Place, batch_id: str) -> list[Path]:
    """The landed data files of a batch."""
    landing = Path(place.settings.landing.removeprefix("file://"))
    return sorted(landing.glob(f"*/{batch_id}/member-*/**/*.parquet"))


def staged_files(place: Place, batch_id: str) -> list[Path]:
    """The data files of a batch that wait to be published, where one attempt has left its result.

    None of a batch that is published: in a table its files lie where they were staged, and what changes there is
    nobody's to notice.
    """
    try:
        is_published = batch_id in place.output.batches()
    except Exception:  # noqa: BLE001 (the catalog's database is away)
        return []
    if is_published:
        return []
    results = sorted(place.output.staging().glob(f"{batch_id}-*/*/_result/part-00000*"))
    if len(results) != 1:
        return []
    attempt = results[0].parent.parent
    told = json.loads(results[0].read_text(encoding="utf-8"))
    return [attempt / file["path"] for file in told["files"]]


def flip_one(files: Sequence[Path]) -> bool:
    """Change the byte in the middle of the first file that isn't empty; whether there was one."""
    for path in files:
        if size := path.stat().st_size:
            with path.open("r+b") as file:
                file.seek(size // 2)
                (byte,) = file.read(1)
                file.seek(size // 2)
                file.write(bytes([byte ^ 1]))
            return True
    return False


def flip_back(files: Iterable[LandedFile]) -> None:
    """Change the byte back in those where it was changed, of batches that nobody has read since: a person skipped them.

    Raises CorruptFileError where anything else has changed.
    """
    for file in files:
        try:
            verify([file])
        except CorruptFileError:
            flip_one([Path(file.uri.removeprefix("file://"))])
            verify([file])
