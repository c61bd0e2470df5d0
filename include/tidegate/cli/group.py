"""`tidegate group`: see a subscription's consumer group, and reset its positions.

Exit status: 0 done or nothing to do, 1 refused as things stand, or a system failed, 2 the use or a definition is wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table

from tidegate.cli.bounds import BOUND, MEANING, bound
from tidegate.cli.console import Json, out, print_json
from tidegate.cli.person import person_here
from tidegate.cli.pipeline import looking, pipeline_here, told_if_slow
from tidegate.cli.settings import Name, settings_here
from tidegate.model.counting import counted

app = typer.Typer(no_args_is_help=True, help="Show a subscription's consumer group, or reset its positions.")


@app.command()
def describe(
    name: Name,
    *,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print only the committed offsets, as reset --to FILE takes them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the group's members, and each partition's committed offset, who committed it, log start and end, and lag.

    Nothing is changed, but a ledger of an older version is migrated. --json adds OCI Streaming's view of
    each partition, whose committedOffset is the last offset that was read.
    """
    from tidegate.monitoring.group_description import describe_group  # noqa: PLC0415 - see above

    if offsets and as_json:
        raise typer.BadParameter("--offsets prints lines of a file: leave --json out, which has the offsets, too")
    with _opened(name, changes=False) as pipeline:
        description = describe_group(pipeline)
    document = description.to_json()
    if as_json:
        print_json(document)
    elif offsets:
        _print_offsets(document["partitions"])
    else:
        _print_description(document)


@app.command()
def reset(
    name: Name,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar=BOUND,
            help=f"The new position. {MEANING} TRIM_HORIZON, LATEST and AT_TIME (with --time) work, too.",
        ),
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="ISO", help="The time for --to AT_TIME.")] = None,
    by: Annotated[int | None, typer.Option(metavar="N", help="Move by N offsets: forward, or back with -N.")] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:0,1]", help="Move only these; repeatable."),
    ] = None,
    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon",
            help="Give up an open batch: nothing of it is published, and its records are read again "
            "unless the reset skips them.",
        ),
    ] = False,
    note: Annotated[str, typer.Option(help="Why; kept in the ledger.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved, and move nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Move the group's positions; the next run reads from there.

    Refused while the group has live members, and without --abandon while a batch is open. Records that are skipped
    aren't read; those that are read again are published again, beside their earlier rows.
    """
    from tidegate.operations import reset_syntax  # noqa: PLC0415 - see above
    from tidegate.steps.reset_group import ResetRequest, ToOffsets, reset_group  # noqa: PLC0415 - see above
    from tidegate.steps.selection import partitions_of  # noqa: PLC0415 - see above

    if (to is None) == (by is None):
        raise typer.BadParameter("say once where to: --to or --by")
    target = reset_syntax.target(by=by) if to is None else bound(to, time)
    if isinstance(target, ToOffsets) and partitions:
        raise typer.BadParameter("a file of offsets names the partitions itself: leave --partitions out")
    with _opened(name, changes=not dry_run) as pipeline:
        existing = partitions_of(pipeline.subscription, pipeline.source) if partitions else ()
        chosen = reset_syntax.partitions(partitions, existing) if partitions else None
        done = reset_group(pipeline, ResetRequest(target, person_here(), note, chosen, abandon, dry_run))
    changes = [
        {"topic": each.at.topic, "partition": each.at.partition, "from": each.before, "to": each.after}
        for each in done.changes
    ]
    abandoned = done.abandoned.id if done.abandoned else None
    told = {"changes": changes, "skipped": done.skipped, "reread": done.reread, "abandoned": abandoned}
    if as_json:
        print_json({"subscription": name, "dry_run": dry_run, **told})
    else:
        _print_reset(name, told, dry_run=dry_run)


def _print_offsets(partitions: list[dict[str, Any]]) -> None:
    typer.echo("topic,partition,offset")
    for row in partitions:
        if row["committed"] is not None:
            typer.echo(f"{row['topic']},{row['partition']},{row['committed']}")


def _print_description(document: dict[str, Any]) -> None:
    where = f", cluster {document['cluster_id']}" if document["cluster_id"] else ""
    lag = "unknown" if document["lag"] is None else f"{document['lag']:,}"
    out.print(
        f"{document['subscription']}: group {document['group']}, positions in {document['store']}{where}, lag {lag}",
        markup=False,
    )
    for member in document["members"]:
        out.print(f"  member: {member}", markup=False)
    if not document["members"]:
        out.print("  no live members: Tidegate joins no group, it assigns partitions to the tasks of a run")
    if document["open"]:
        out.print("  open: batch {batch_id} is {state}".format(**document["open"]), markup=False)
    columns = ("topic", "partition", "committed", "log start", "log end", "lag", "committed by", "reserved")
    table = Table(*columns, box=None, padding=(0, 2, 0, 2))
    for row in document["partitions"]:
        table.add_row(*(_text(row[column.replace(" ", "_")]) for column in columns[:-1]), _reserved(row["oci"]))
    out.print(table)


def _reserved(oci: dict[str, Any]) -> str:
    until = f" until {oci['timeReservedUntil']}" if oci["timeReservedUntil"] else ""
    return f"{oci['reservedInstance']}{until}" if oci["reservedInstance"] else ""


def _print_reset(name: str, told: dict[str, Any], *, dry_run: bool) -> None:
    changes, abandoned = told["changes"], told["abandoned"]
    moved = [change for change in changes if change["from"] != change["to"]]
    if not moved and abandoned:
        stays = "would stay" if dry_run else "stays"
        out.print(f"{name}: the group {stays} where it stands; the next run reads from there", markup=False)
    elif not moved:
        out.print(f"{name}: the group stands there already: nothing was moved", markup=False)
    elif dry_run:
        out.print(
            f"{name}: would move {len(moved)} of {counted(len(changes), 'partition')}; nothing was moved", markup=False
        )
    else:
        out.print(
            f"{name}: moved {len(moved)} of {counted(len(changes), 'partition')}; the next run reads from there",
            markup=False,
        )
    for what, count in (("passed over unread", told["skipped"]), ("read again", told["reread"])):
        if count:
            would = "would be" if dry_run else ("is" if count == 1 else "are")
            out.print(f"  {counted(count, 'offset')} {would} {what}", style="yellow", markup=False)
    for change in changes:
        before = "no position" if change["from"] is None else change["from"]
        out.print(f"  {change['topic']}-{change['partition']} from {before} to {change['to']}", markup=False)
    if abandoned:
        out.print(f"  batch {abandoned} {'would be' if dry_run else 'is'} abandoned", markup=False)


def _text(value: object) -> str:
    return "" if value is None else str(value)


@contextmanager
def _opened(name: str, *, changes: bool) -> Iterator[Any]:
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    settings = settings_here()
    subscription = AllDefinitions(settings).load(name)
    with (
        told_if_slow(),
        looking(settings, changes=changes) as readable,
        pipeline_here(subscription, readable) as pipeline,
    ):
        yield pipeline
