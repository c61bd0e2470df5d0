"""`tidegate replay`: read a range of a subscription once more, into another output."""

from typing import Annotated, Any

import typer

from tidegate.cli.bounds import BOUND, MEANING, bound, offsets_in
from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, err, out, print_json
from tidegate.cli.person import person_here
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
    as_json: Json = False,
) -> None:
    """Read a range of a subscription again, through its transform, into another output. Its group doesn't move.

    Each record of the range is written once. The same command continues a replay that was interrupted, and does nothing
    once it is done. To replace published batches, use `tidegate reprocess`.
    """
    from tidegate.operations.replay import ReplayRequest, begin_replay, derived, run_replay, target  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.runtime.pipeline import open_pipeline  # noqa: PLC0415 - see above

    settings, by = settings_here(), person_here()
    subscription, connections = AllDefinitions(settings).load(name), connections_here()
    asked = f"from {_said(from_)} to {_said(to)}"
    request = ReplayRequest(bound(from_), bound(to), output, asked, by, note)
    with open_pipeline(subscription, settings, connections) as pipeline:
        known = begin_replay(pipeline, request, settings.home)
    total = sum(r.end - r.start for r in known.ranges)
    if not (as_json or known.is_done):
        err.print(
            f"{name}: replaying {counted(len(known.ranges), 'partition')}, {counted(total, 'offset')}, "
            f"into {target(subscription, known, settings.home)}",
            markup=False,
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
        ranges = [{"topic": r.topic, "partition": r.partition, "start": r.start, "end": r.end} for r in known.ranges]
        document = {"subscription": name, "replay": known.name, "output": output, "ranges": ranges}
        print_json({**document, "was_done": known.is_done, **counts})
    elif known.is_done:
        out.print(f"{name}: this was replayed before ({known.by}, {known.at:%Y-%m-%d %H:%M} UTC)", markup=False)
    else:
        batches, records = counted(counts["batches"], "batch", "batches"), counted(counts["records"], "record")
        did = f"{batches}, {records}, {counted(counts['rows'], 'row')}, {counts['rejected']:,} rejected"
        out.print(f"{name}: replayed {asked} into {output}: {did}", markup=False)


def _said(written: str) -> str:
    """As the ledger knows it: the lines of a file, wherever that is."""
    text = offsets_in(written)
    return written if text is None else f"offsets {' '.join(text.split())}"
