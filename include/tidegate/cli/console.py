"""What every command prints to: text for people on two consoles, or one JSON document."""

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

_WIDE = None if sys.stdout.isatty() else 200  # columns of a table that goes to a file
out = Console(highlight=False, soft_wrap=True, width=_WIDE)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_JSON = "tidegate.json"


def _note_json(context: typer.Context, wanted: bool) -> bool:  # noqa: FBT001 (as typer hands it over)
    context.meta[_JSON] = wanted
    return wanted


Json = Annotated[
    bool,
    typer.Option(
        "--json",
        callback=_note_json,
        is_eager=True,  # before the others, which may be wrong
        help="Print one JSON document instead of text.",
    ),
]


def wants_json(context: typer.Context) -> bool:
    """Whether the command that this program runs was asked for JSON, be it before its options are read."""
    return bool(context.meta.get(_JSON)) or "--json" in context.args


def print_json(document: object) -> None:
    """Print the document alone, in no terminal's colours."""
    print(json.dumps(document, indent=2))  # noqa: T201 - see above


def instant(text: str) -> str:
    """`2026-01-31 08:00:00 UTC`, of an instant in ISO 8601 and UTC."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"


def ending(note: str) -> str:
    """`: a person's note` in one line, behind what it is about; nothing if there is none."""
    return f": {' '.join(note.split())}" if note else ""


def table(rows: Iterable[Mapping[str, Any]], *columns: str) -> Table:
    """These columns of the rows, each named as in the document; nothing where a row has none."""
    made = Table(*columns, box=None, padding=(0, 2, 0, 2))
    for row in rows:
        made.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    return made
