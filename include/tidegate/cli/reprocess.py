"""`tidegate reprocess`: make published batches once more, by the transform as it is now.

Exit status: 0 done, 1 refused as things stand, or a system or the job failed, 2 the use or a definition is wrong.
"""

import getpass
import os
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidegate.cli.console import Json, err, out, print_json, table
from tidegate.cli.settings import Name, settings_here

_TIME = "TIME"


def reprocess(
    name: Name,
    *,
    batch_id: Annotated[
        str | None, typer.Option("--batch", metavar="ID", help="The batch, by its id in `tidegate batches`.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar=_TIME, help="All batches planned at or after this time; ISO 8601, UTC if it has no zone."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar=_TIME, help="With --from: and planned before this time.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(help="Write there, as in a definition, and leave the published batches as they are."),
    ] = None,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Replace Parquet folders, although a reader may find a batch's files gone."),
    ] = False,
    dead_letters: Annotated[
        bool,
        typer.Option("--dead-letters", help="Produce the records that the transform rejects, as a run does."),
    ] = False,
    note: Annotated[str, typer.Option(help="Why; kept in the ledger.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be replaced, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Process published batches again with the current transform, and replace the rows of each in one step.

    Records come from the landed files, else from Kafka. Offsets don't move, and no dead letters are produced without
    --dead-letters. The same command continues one that was interrupted. To write a range from Kafka into another
    output, use `tidegate replay`.
    """
    from tidegate.ledger.generations import SqlGenerations  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.runtime.batch_document import generation_document  # noqa: PLC0415 - see above
    from tidegate.runtime.connections import AirflowConnections  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.runtime.other_output import other_output  # noqa: PLC0415 - see above
    from tidegate.runtime.pipeline import open_outbox, open_pipeline  # noqa: PLC0415 - see above
    from tidegate.runtime.reprocessing import (  # noqa: PLC0415 - see above
        chosen_batch,
        chosen_between,
        preview_document,
        reprocess_all,
    )
    from tidegate.steps.reprocess import ReprocessRequest  # noqa: PLC0415 - see above

    between = _between(batch_id, from_, to)
    settings = settings_here()
    subscription = AllDefinitions(settings).load(name)
    connections = AirflowConnections(os.environ)
    with (
        open_pipeline(subscription, settings, connections) as pipeline,
        open_outbox(subscription, connections) if dead_letters else nullcontext() as letters,
    ):
        target = None if output is None else other_output(pipeline, output, settings.home, "nothing was reprocessed")
        request = ReprocessRequest(getpass.getuser(), note, target, in_place)
        chosen = chosen_between(pipeline, *between) if between else chosen_batch(pipeline, batch_id or "")
        if dry_run:
            documents = [preview_document(pipeline, batch, request) for batch in chosen.batches]
        else:
            documents = []
            for batch, done in reprocess_all(pipeline, SqlGenerations(settings.ledger), chosen, request, letters):
                documents.append(generation_document(done))
                if not as_json:
                    _say(batch, documents[-1], len(documents), len(chosen.batches))
    left_out = [{"batch_id": each.id, "state": each.condition} for each in chosen.left_out]
    if as_json:
        print_json({"subscription": name, "dry_run": dry_run, "batches": documents, "left_out": left_out})
        return
    for each in left_out:
        err.print("{batch_id} is {state}: it is left as it is".format(**each), markup=False)
    if dry_run:
        out.print(table(documents, "batch_id", "records", "records_from", "replaces_rows", "output"))


def _say(batch: Any, done: dict[str, Any], number: int, count: int) -> None:
    made = "{rows} rows, {rejected} rejected, {filtered} filtered".format(**done)
    before = "unknown" if batch.rows is None else f"{batch.rows:,}"
    out.print(
        f"{number}/{count} batch {batch.id}: generation {done['generation']} is in {done['output']}: {made} (its run "
        f"published {before} rows)",
        markup=False,
    )


def _between(batch_id: str | None, start: str | None, end: str | None) -> tuple[datetime, datetime] | None:
    """The bounds of a range of time; None where a batch is named."""
    if (batch_id is None) == (start is None) or (start is None) != (end is None):
        raise typer.BadParameter("say which batches: --batch ID, or --from TIME and --to TIME")
    if start is None or end is None:
        return None
    return _instant(start), _instant(end)


def _instant(written: str) -> datetime:
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        raise typer.BadParameter(f"{written!r} is no time in ISO 8601, as in 2026-01-31T08:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
