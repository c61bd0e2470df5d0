"""`tidegate reprocess`: make published batches once more, by the transform as it is now.

Exit status: 0 done, 1 refused as things stand, or a system or the job failed, 2 the use or a definition is wrong,
130 or 143 it was interrupted.
"""

from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, err, out, print_json, table
from tidegate.cli.interrupts import interruptible
from tidegate.cli.person import person_here
from tidegate.cli.settings import Name, settings_here
from tidegate.model.counting import counted

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
            "--from",
            metavar=_TIME,
            help="All batches planned at or after this time, and before that of --to; ISO 8601, UTC if it has no zone.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar=_TIME, help="Goes with --from: the end of the range, which is not in it."),
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
    --dead-letters. After an interruption, run the same command again: it makes the batches that are missing, and those
    of a range that were done once more. To write a range from Kafka into another output, use `tidegate replay`.
    """
    from tidegate.ledger.generations import SqlGenerations  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.ledger.totals import published_batches  # noqa: PLC0415 - see above
    from tidegate.monitoring.batch_document import generation_document  # noqa: PLC0415 - see above
    from tidegate.operations.dead_letters import open_dead_letters  # noqa: PLC0415 - see above
    from tidegate.operations.other_output import other_output  # noqa: PLC0415 - see above
    from tidegate.operations.reprocessing import (  # noqa: PLC0415 - see above
        Chosen,
        chosen_batch,
        chosen_between,
        interrupted,
        refuse_redriven,
        removed_batches,
        reprocess_all,
        reprocess_document,
    )
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.runtime.pipeline import open_outbox, open_pipeline  # noqa: PLC0415 - see above
    from tidegate.runtime.unmade_ledger import require_runs  # noqa: PLC0415 - see above
    from tidegate.steps.reprocess import ReprocessRequest  # noqa: PLC0415 - see above

    between = _between(batch_id, from_, to)
    settings = settings_here()
    subscription = AllDefinitions(settings).load(name)
    require_runs(name, settings.ledger)
    connections = connections_here()
    chosen, documents = Chosen(()), []
    with (
        interruptible() as caught,
        suppress(KeyboardInterrupt),
        open_pipeline(subscription, settings, connections) as pipeline,
        open_outbox(subscription, connections) if dead_letters else nullcontext() as letters,
    ):
        target = None if output is None else other_output(pipeline, output, settings.home, "nothing was reprocessed")
        request = ReprocessRequest(person_here(), note, target, in_place)
        if between is None:
            chosen = chosen_batch(pipeline, batch_id or "")
        else:
            chosen = chosen_between(pipeline, *between, published_batches(settings.ledger, name))
        if removed := removed_batches(chosen):
            err.print(removed, style="yellow", markup=False)
        with open_dead_letters(subscription, settings, connections) as redrives:
            refuse_redriven(redrives, chosen, request)
        if dry_run:
            documents = [reprocess_document(pipeline, batch, request) for batch in chosen.batches]
        else:
            for batch, done in reprocess_all(pipeline, SqlGenerations(settings.ledger), chosen, request, letters):
                documents.append(generation_document(done))
                if not as_json:
                    _say(batch, documents[-1], len(documents), len(chosen.batches))
                    if done.made.rejected and letters is None and subscription.produced_topics:
                        _say_unlettered(name, batch.id, done.made.rejected)
    error = interrupted(name, () if dry_run else chosen.batches, len(documents)) if caught else None
    left_out = [{"batch_id": each.id, "state": each.condition} for each in chosen.left_out]
    if as_json:
        document = {
            "subscription": name,
            "dry_run": dry_run,
            "batches": documents,
            "left_out": left_out,
            "removed": chosen.removed,
        }
        print_json(document if error is None else {**document, "error": error})
    else:
        _say_rest(documents if dry_run else None, left_out, error)
    if caught:
        raise typer.Exit(128 + caught[0])


def _say_rest(previews: list[dict[str, Any]] | None, left_out: list[dict[str, Any]], error: str | None) -> None:
    for each in left_out:
        err.print("{batch_id} is {state}: it is left as it is".format(**each), markup=False)
    if error is not None:
        err.print(f"tidegate: {error}", style="red", markup=False)
    elif previews is not None:
        out.print(table(previews, "batch_id", "records", "records_from", "replaces_rows", "output"))


def _say(batch: Any, done: dict[str, Any], number: int, count: int) -> None:
    made = f"{counted(done['rows'], 'row')}, {done['rejected']:,} rejected, {done['filtered']:,} filtered"
    before = "an unknown number of rows" if batch.rows is None else counted(batch.rows, "row")
    out.print(
        f"{number}/{count} batch {batch.id}: generation {done['generation']} is in {done['output']}: {made} (its run "
        f"published {before})",
        markup=False,
    )


def _say_unlettered(name: str, batch_id: str, rejected: int) -> None:
    """That a redrive finds no letter of what is rejected again."""
    err.print(
        f"  {counted(rejected, 'record')} of it {'is' if rejected == 1 else 'are'} rejected again, and no redrive "
        f"takes the dead letter of such a record: reprocess {batch_id} of {name} once more when the transform is "
        "mended, or with --dead-letters for new ones",
        markup=False,
    )


def _between(batch_id: str | None, start: str | None, end: str | None) -> tuple[datetime, datetime] | None:
    """The bounds of a range of time; None where a batch is named."""
    first, last = (None if each is None else _instant(each) for each in (start, end))
    if batch_id is None and first is not None and last is not None:
        return first, last
    named = {"--batch": batch_id, "--from": start, "--to": end}
    given = [option for option, value in named.items() if value is not None]
    if given == ["--batch"]:
        return None
    if not given:
        why = "say which batches: --batch ID, or --from TIME and --to TIME"
    elif batch_id is None:
        why = f"{given[0]} is without {'--to' if end is None else '--from'}: a range has both"
    else:
        why = f"{', '.join(given[:-1])} and {given[-1]} are given: say one batch, or a range by --from and --to"
    raise typer.BadParameter(why)


def _instant(written: str) -> datetime:
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        raise typer.BadParameter(f"{written!r} is no time in ISO 8601, as in 2026-01-31T08:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
