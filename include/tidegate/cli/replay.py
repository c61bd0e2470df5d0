"""`tidegate replay`: read a range of a subscription once more, into another output."""

from typing import Annotated, Any

import typer

from tidegate.cli.bounds import BOUND, MEANING, bound, offsets_in
from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, err, out, print_json
from tidegate.cli.person import person_here
from tidegate.cli.pipeline import looking
from tidegate.cli.settings import Name, settings_here
from tidegate.model.counting import counted


def replay(
    name: Name,
    *,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar=BOUND,
            help=f"Where to begin. {MEANING}",
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar=BOUND, help="Where to end; the record there isn't read.")],
    output: Annotated[
        str,
        typer.Option(
            help="A folder or table that no subscription has as its output; a relative path is in TIDEGATE_HOME."
        ),
    ],
    note: Annotated[str, typer.Option(help="Why; kept in the ledger.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be read, and read nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Read a range of a subscription again, through its transform, into another output. Its group doesn't move.

    Each record of the range is written once. The same command continues a replay that was interrupted, and does nothing
    once it is done. To replace published batches, use `tidegate reprocess`.
    """
    from tidegate.operations.replay import (  # noqa: PLC0415 - `tidegate --help` needn't wait for it
        ReplayRequest,
        begin_replay,
        derived,
        preview_replay,
        run_replay,
        target,
    )
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.runtime.pipeline import open_pipeline  # noqa: PLC0415 - see above

    settings, by = settings_here(), person_here()
    subscription, connections = AllDefinitions(settings).load(name), connections_here()
    asked = f"from {_said(from_)} to {_said(to)}"
    request = ReplayRequest(bound(from_), bound(to), output, asked, by, note)
    if dry_run:
        with (
            looking(settings, changes=False) as readable,
            open_pipeline(subscription, readable, connections) as pipeline,
        ):
            known = preview_replay(pipeline, request, settings.home)
            is_begun = any(each.name == known.name for each in pipeline.ledger.replays(name))
        if as_json:
            print_json({**_document(known), "dry_run": True})
        else:
            _print_preview(known, target(subscription, known, settings.home), is_begun=is_begun)
        return
    with open_pipeline(subscription, settings, connections) as pipeline:
        known = begin_replay(pipeline, request, settings.home)
    if not (as_json or known.is_done):
        err.print(
            f"{name}: replaying {_amount(known)}, into {target(subscription, known, settings.home)}", markup=False
        )

    def said(run: Any) -> None:
        if not as_json:
            err.print(
                f"  batch {run.batch.id} {run.state}: {counted(run.batch.landed_records, 'record')}", markup=False
            )

    counts: dict[str, int] = dict.fromkeys(("batches", "records", "rows", "rejected"), 0)
    if not known.is_done:
        with open_pipeline(derived(subscription, known), settings, connections) as pipeline:
            done = run_replay(pipeline, known, by, said)
        counts = {"batches": done.batches, "records": done.records, "rows": done.rows, "rejected": done.rejected}
    if as_json:
        print_json({**_document(known), "dry_run": False, **counts})
    elif known.is_done:
        _print_done(known)
    else:
        batches, records = counted(counts["batches"], "batch", "batches"), counted(counts["records"], "record")
        did = f"{batches}, {records}, {counted(counts['rows'], 'row')}, {counts['rejected']:,} rejected"
        out.print(f"{name}: replayed {asked} into {output}: {did}", markup=False)


def _document(replay: Any) -> dict[str, Any]:
    ranges = [{"topic": r.topic, "partition": r.partition, "start": r.start, "end": r.end} for r in replay.ranges]
    return {
        "subscription": replay.subscription,
        "replay": replay.name,
        "output": replay.output,
        "ranges": ranges,
        "was_done": replay.is_done,
    }


def _amount(replay: Any) -> str:
    total = sum(r.end - r.start for r in replay.ranges)
    return f"{counted(len(replay.ranges), 'partition')}, {counted(total, 'offset')}"


def _print_preview(replay: Any, into: str, *, is_begun: bool) -> None:
    if replay.is_done:
        _print_done(replay)
        return
    out.print(f"{replay.subscription}: would replay {_amount(replay)}, into {into}; nothing was read", markup=False)
    if is_begun:
        by = f"{replay.by}, {replay.at:%Y-%m-%d %H:%M} UTC"
        out.print(f"  it was begun before ({by}), and would go on with what is left", markup=False)
    for r in replay.ranges:
        out.print(f"  {r.at} from {r.start} to {r.end}", markup=False)


def _print_done(replay: Any) -> None:
    by = f"{replay.by}, {replay.at:%Y-%m-%d %H:%M} UTC"
    out.print(
        f"{replay.subscription}: this was replayed before ({by}); to read it once more, name another output",
        markup=False,
    )


def _said(written: str) -> str:
    """As the ledger knows it: the lines of a file, wherever that is."""
    text = offsets_in(written)
    return written if text is None else f"offsets {' '.join(text.split())}"
