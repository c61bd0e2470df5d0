"""Where in a log: a word, a time, or a file of offsets, as an option says it."""

from pathlib import Path
from typing import Any

import typer

BOUND = "earliest|latest|TIME|FILE"
MEANING = (
    "TIME is in ISO 8601, UTC if it has no zone: the first record at or after it, or the end if there is none. "
    "FILE has lines topic,partition,offset."
)


def bound(written: str, time: str | None = None) -> Any:
    """What it means, see `tidegate.operations.reset_syntax.target`."""
    from tidegate.operations import reset_syntax  # noqa: PLC0415 - `tidegate --help` needn't wait for it

    text = offsets_in(written)
    if text is not None:
        return reset_syntax.target(offsets=text)
    return reset_syntax.target(written, time, takes_files=True)


def offsets_in(written: str) -> str | None:
    """The lines of the file of this name; None where there is none. Raises BadParameter if it can't be read."""
    file = Path(written)
    if not file.is_file():
        return None
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} can't be read: {error}") from None
