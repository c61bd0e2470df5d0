"""What `tidegate` imports for most of its commands, and what typer imports once a command is run.

The command line itself isn't there: at its import it asks what it prints to.
"""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

MODULES = (
    "alembic.command",
    "alembic.config",
    "prometheus_client.openmetrics.exposition",
    "psycopg2",
    "rich._emoji_codes",
    "rich.live",
    "rich.logging",
    "rich.markup",
    "rich.padding",
    "rich.progress",
    "rich.table",
    "tidegate.config.check",
    "tidegate.config.executors",
    "tidegate.ledger.stored_definitions",
    "tidegate.runtime.connection_check",
    "tidegate.runtime.connections",
    "tidegate.runtime.dead_letters",
    "tidegate.runtime.definitions",
    "tidegate.runtime.group_description",
    "tidegate.runtime.maintain",
    "tidegate.runtime.metrics",
    "tidegate.runtime.preview_document",
    "tidegate.runtime.prune",
    "tidegate.runtime.replay",
    "tidegate.runtime.reprocessing",
    "tidegate.runtime.run",
    "tidegate.runtime.status",
)
_app = typer.Typer()


@_app.command()
def _command(name: str, number: Annotated[int, typer.Option(min=1)] = 1, files: list[Path] | None = None) -> None:
    typer.echo(f"{name} {number} {files}")


for module in MODULES:
    import_module(module)
assert CliRunner().invoke(_app, ["name", "--number", "2", "--files", "file"]).exit_code == 0
