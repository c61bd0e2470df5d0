"""What every command prints to: text for people on two consoles, or one JSON document."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

_WIDE = None if sys.stdout.isatty() else 200  # columns of a table that goes to a file
out = Console(highlight=False, soft_wrap=True, width=_WIDE)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def print_json(document: object) -> None:
    """Print the document alone, in no terminal's colours."""
    print(json.dumps(document, indent=2))  # noqa: T201 - see above
