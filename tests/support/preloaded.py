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
    "tidegate.checks.connection_check",
    "tidegate.runtime.connections",
    "tidegate.operations.dead_letters",
    "tidegate.runtime.definitions",
    "tidegate.monitoring.group_description",
    "tidegate.operations.maintain",
    "tidegate.monitoring.metrics",
    "tidegate.operations.preview_document",
    "tidegate.operations.prune",
    "tidegate.operations.replay",
    "tidegate.operations.reprocessing",
    "tidegate.runtime.run",
    "tidegate.monitoring.status",
)
_app = typer.Typer()


@_app.command()
def _command(name: str, number: Annotated[int, typer.Option(min=1)] = 1, files: list[Path] | None = None) -> None:
    typer.echo(f"{name} {number} {files}")


for module in MODULES:
    import_module(module)
assert CliRunner().invoke(_app, ["name", "--number", "2", "--files", "file"]).exit_code == 0
