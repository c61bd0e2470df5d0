"""What `tidegate status` prints for people, out of the documents that it prints with --json."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.table import Table

from tidegate.cli.console import out
from tidegate.model.records import headline
from tidegate.runtime.health import Verdict

_STYLES = {"OK": "green", "WARN": "yellow", "REWOUND": "yellow"}
_CRITICAL = "red"
_FEW = 3  # partitions of a reset


def print_all(documents: Iterable[dict[str, Any]]) -> None:
    """Each subscription with all that there is to say; only why, for one that can't be looked at."""
    for document in documents:
        if "group" in document:
            _print_status(document)
        else:
            out.print(f"[bold]{document['subscription']}[/bold]")
            print_finding(document, "  ")


def print_lines(documents: Iterable[dict[str, Any]]) -> None:
    """A line for each subscription, the worst first, for a monitor."""
    for document in sorted(documents, key=lambda each: -Verdict(each["verdict"]).rank):
        print_finding(document, name=document["subscription"])


def _print_status(status: dict[str, Any]) -> None:
    """A subscription: its verdict first, then positions, what was lost, the open batch and the last ones."""
    lag = "unknown" if status["lag"] is None else f"{status['lag']:,}"
    out.print(f"[bold]{status['subscription']}[/bold], group {status['group']}, lag {lag}")
    for finding in (status, *status["also"]):
        print_finding(finding, "  ")
    if status["last_run"]:
        run = status["last_run"]
        out.print(f"  last run {_time(run['ended_at'])}: {run['said']}", markup=False)
    if status["positions"]:
        out.print(_table(status["positions"], "topic", "partition", "committed", "end", "lag"))
    for loss in status["losses"]:
        said = "  lost: {topic}-{partition} stood at {position} while it held [{earliest}, {end})".format(**loss)
        out.print(said, style=_CRITICAL, markup=False)
    for move in status["moves"]:
        when = _time(move["seen_at"]) if move["seen_at"] else "since the last run"
        out.print(
            f"  moved {when}: {move['topic']}-{move['partition']} from {move['from']} to {move['to']}", markup=False
        )
    for reset in status["resets"]:
        out.print(f"  {_reset(reset)}", markup=False)
    if status["open"]:
        batch = status["open"]
        since = f" since {_time(batch['since'])}" if batch["since"] else ""
        out.print(f"  open: batch {batch['batch_id']} is {batch['state']}{since}", markup=False)
    _print_batches(status)


def _print_batches(status: dict[str, Any]) -> None:
    """The last batches, why some ended as they did, and what people answered."""
    if status["batches"]:
        rows = [row | {"opened_at": _time(row["opened_at"])} for row in status["batches"]]
        columns = ("batch_id", "state", "opened_at", "deliveries", "records", "rows", "rejected", "seconds")
        out.print(_table(rows, *columns))
    for batch in status["batches"]:
        if batch["reason"] and batch["closed_at"]:
            out.print(f"  batch {batch['batch_id']} is {batch['state']}: {headline(batch['reason'])}", markup=False)
    for answered in status["clearances"]:
        note = f": {answered['note']}" if answered["note"] else ""
        who = f"{answered['by']} answered {answered['answer']}, {_time(answered['at'])}"
        out.print(f"  batch {answered['batch_id']}: {who}{note}", markup=False)


def _reset(reset: dict[str, Any]) -> str:
    moved = [f"{each['topic']}-{each['partition']} to {each['to']}" for each in reset["changes"]]
    few = ", ".join(moved[:_FEW]) + (f" and {len(moved) - _FEW} more" if moved[_FEW:] else "")
    what = "reset" if reset["done"] else "reset, which may not have been carried out,"
    note = f": {reset['note']}" if reset["note"] else ""
    return f"{what} by {reset['by']}, {_time(reset['at'])}: {few}{note}"


def print_finding(finding: dict[str, Any], before: str = "", name: str = "") -> None:
    """One line: the verdict, why, since when, and what to do."""
    verdict = finding["verdict"]
    since = f" (since {_time(finding['since'])})" if finding["since"] else ""
    parts = [f"{verdict} {name}".rstrip() + (f": {finding['reason']}{since}" if finding["reason"] else "")]
    parts += [finding["action"]] if finding["action"] else []
    out.print(before + ". To do: ".join(parts), style=_STYLES.get(verdict, _CRITICAL), markup=False)


def _time(text: str) -> str:
    """`2026-01-31 08:00:00 UTC`, of an instant in ISO 8601 and UTC."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"


def _table(rows: list[dict[str, Any]], *columns: str) -> Table:
    table = Table(*columns, box=None, padding=(0, 2, 0, 2))
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    return table
