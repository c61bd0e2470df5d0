"""From `processing.format` and `processing.output` to the URI of an output, as `model.output_uri` describes it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidegate.config.settings import absolute_uri
from tidegate.model.output_uri import DeltaTable, Output, OutputFormat, ParquetFolder, iceberg_table
from tidegate.model.subscription import Processing

_DELTA_LOG: Final = "_delta_log"
_HERE: Final = "file://"


def output_uri(home: Path, processing: Processing) -> str:
    """The URI by which ledger and manifests name the output. Raises WrongDefinitionError where none can be made."""
    return str(output_of(home, processing.output, processing.format))


def output_of(home: Path, written: str, format_: OutputFormat) -> Output:
    """The output of this format, as a definition writes it; paths are relative to `home`.

    Raises WrongDefinitionError where the format has no such output.
    """
    match format_:
        case "iceberg":
            return iceberg_table(written.split("."))
        case "delta":
            return DeltaTable(absolute_uri(home, written))
        case "parquet":
            return ParquetFolder(absolute_uri(home, written))


def taken_by(output: Output) -> str | None:
    """What is in the way of an output on this machine, and what to do; None if nothing is, as far as this user may see.

    That is something of another format in its folder, or a file where the folder would be.
    """
    if output.place.startswith(_HERE):
        with suppress(PermissionError):
            return _taken(output)
    return None


def _taken(output: Output) -> str | None:
    folder = Path(output.place.removeprefix(_HERE))
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        return f"can't be a folder: {there} is a file: name another folder"
    if (held := _held(folder)) is not None:
        known, what = held
        other = f"has {what} in it, and processing.format is {output.format}: name another folder, or write format: "
        return None if known == output.format else f"{other}{known}"
    if foreign := next(filter(_is_foreign, _entries(folder)), None):
        return (
            f"has Parquet that Tidegate hasn't written ({foreign.name}) in it: readers would find that, or what "
            "Tidegate writes, and not both: name another folder"
        )
    return None


def _held(folder: Path) -> tuple[OutputFormat, str] | None:
    """The format of what is in a folder of this machine, and what shows it; None for an empty or unknown one."""
    if (folder / _DELTA_LOG).is_dir():
        return "delta", f"a Delta table ({_DELTA_LOG})"
    batches = (each for each in _entries(folder) if each.name.startswith("batch_id="))
    if found := next((each for each in batches if (each / "_manifest.json").is_file()), None):
        return "parquet", f"batches that Tidegate published as Parquet ({found.name})"
    return None


def _is_foreign(entry: Path) -> bool:
    """Whether it is a Parquet file, or the folder of a partition as Hive and Spark name it, of another job."""
    if entry.name.startswith(("_", ".", "batch_id=")):
        return False
    return entry.suffix == ".parquet" or ("=" in entry.name and entry.is_dir())


def _entries(folder: Path) -> Iterator[Path]:
    """What is in a folder, one after the other; nothing of one that can't be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield Path(entry.path)
