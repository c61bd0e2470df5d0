"""`tidegate files`: the published files of a subscription's output, for whoever reads them by name."""

from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, err, print_json
from tidegate.cli.settings import Name, settings_here
from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings, absolute_uri
from tidegate.model.counting import counted
from tidegate.model.errors import TidegateError, UnavailableError, WrongDefinitionError
from tidegate.model.output_uri import is_table, parse_output
from tidegate.ports import Connections

if TYPE_CHECKING:
    from tidegate.lake.published_files import PublishedFile


class Format(StrEnum):
    """How the files are told."""

    PATHS = "paths"
    JSON = "json"
    SYMLINK = "symlink"


def files(
    name: Name,
    *,
    since: Annotated[
        str | None, typer.Option(metavar="BATCH", help="Only files that were committed after this batch's.")
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format", help="paths: one path or URI per line; json: one document; symlink: Hive's symlink manifests."
        ),
    ] = Format.PATHS,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Where symlink manifests go; default: _symlink_format_manifest in the output."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the published files of an output in plain Parquet, in the order of their commits.

    Read these instead of listing an object store, where unpublished files and parts of batches lie, too.
    """
    from tidegate.lake.published_files import (  # noqa: PLC0415 - `tidegate --help` needn't wait for it
        published_files,
        symlinks_of,
        write_symlinks,
    )
    from tidegate.parquet.known_stores import use_connections  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    if as_json:
        if form is not Format.PATHS:
            raise typer.BadParameter("--json is --format json: leave one of them out")
        form = Format.JSON
    if form is Format.SYMLINK and since is not None:
        raise typer.BadParameter("symlink manifests are of all files: leave out --since")
    if form is not Format.SYMLINK and to is not None:
        raise typer.BadParameter("--to is where symlink manifests go: add --format symlink")
    settings = settings_here()
    connections = connections_here()
    use_connections(connections)
    processing = AllDefinitions(settings).load(name).processing
    output = output_uri(settings.home, processing)
    if is_table(output):
        where = f"{processing.format}: {processing.output}"
        raise WrongDefinitionError(
            f"{name} publishes into a table ({where}), whose files its log names: read the table"
        )
    found = published_files(output) if since is None else _found_since(since, output, settings)
    _refuse_lost(name, output, settings, connections)
    match form:
        case Format.PATHS:
            for file in found:
                print(file.path)  # noqa: T201 - for scripts, in no terminal's colours and of any length
        case Format.JSON:
            print_json([asdict(file) | {"partition": dict(file.partition)} for file in found])
        case Format.SYMLINK:
            folder = symlinks_of(output) if to is None else absolute_uri(settings.home, to)
            written = counted(write_symlinks(found, folder), "manifest")
            err.print(f"wrote {written} into {folder}", markup=False)


def _found_since(batch_id: str, output: str, settings: Settings) -> "list[PublishedFile]":
    """The files of later batches. Raises as `published_files`, naming the output in which the batch is, if another."""
    from tidegate.lake.published_files import UnknownBatchError, published_files  # noqa: PLC0415 - see above

    try:
        return published_files(output, batch_id)
    except UnknownBatchError:
        former = _published_in(batch_id, settings)
        if former in {None, output}:
            raise
        raise WrongDefinitionError(
            f"batch {batch_id} is published in {former}, and the output is {output} now: read what came after it there "
            "first, as this command prints it with the former processing.output, unless that is a table; then all "
            "files of the new one, without --since"
        ) from None


def _refuse_lost(name: str, output: str, settings: Settings, connections: Connections) -> None:
    """Raise LostDataError where the output lost its newest batch; without a ledger that answers that isn't known."""
    from tidegate.operations.lost_output import refuse_lost  # noqa: PLC0415 - see above
    from tidegate.runtime.lakes import lakes  # noqa: PLC0415 - see above

    try:
        refuse_lost(name, output, settings, lambda batch_id: bool(lakes(connections).published_ids(output, [batch_id])))
    except UnavailableError as away:
        err.print(f"whether batches are missing there isn't known: {away}", markup=False)


def _published_in(batch_id: str, settings: Settings) -> str | None:
    """The output in which a batch is, by the ledger; None where that knows none."""
    from tidegate.ledger.holders import has_tables  # noqa: PLC0415 - see above
    from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - see above

    with suppress(TidegateError):
        batch = SqlLedger(settings.ledger).batch(batch_id) if has_tables(settings.ledger) else None
        if batch and batch.is_published:
            return parse_output(batch.output).written
    return None
