"""What `tidegate status` prints for people, out of the documents that it prints with --json."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from tidegate.cli.console import instant, out, table
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
        _print_line(document, document["subscription"])


def print_brief(documents: Iterable[dict[str, Any]]) -> None:
    """A line for each subscription: its verdict, lag and open batch, or the last one."""
    for document in documents:
        newest = (document.get("open"), *document.get("batches", ()))
        batch = next(filter(None, newest), None)
        about = f"batch {batch['batch_id']} is {batch['state']}" if batch else "no batch yet"
        lag = "unknown" if document.get("lag") is None else f"{document['lag']:,}"
        _print_line(document, f"{document['subscription']} (lag {lag}, {about})")


def _print_line(document: dict[str, Any], name: str) -> None:
    """A line even where the reason has several, of which the first says what there is."""
    print_finding({**document, "reason": document["reason"].partition("\n")[0]}, name=name)


def _print_status(status: dict[str, Any]) -> None:
    """A subscription: its verdict first, then positions, what was lost, the open batch and the last ones."""
    lag = "unknown" if status["lag"] is None else f"{status['lag']:,}{_waited(status['lag_seconds'])}"
    out.print(f"[bold]{status['subscription']}[/bold], group {status['group']}, lag {lag}")
    for finding in (status, *status["also"]):
        print_finding(finding, "  ")
    if status["last_run"]:
        run = status["last_run"]
        out.print(f"  last run {instant(run['ended_at'])}: {_said_of(run, status)}", markup=False)
    if status["positions"]:
        out.print(table(status["positions"], "topic", "partition", "committed", "end", "lag", "lag_seconds"))
    if waiting := status.get("dead_letters_waiting"):
        how = f"`tidegate dead-letters list {status['subscription']}` says why"
        out.print(f"  {waiting:,} dead letters wait to be redriven: {how}", markup=False)
    for loss in status["losses"]:
        said = "  lost: {topic}-{partition} stood at {position} while it held [{earliest}, {end})".format(**loss)
        out.print(said, style=_CRITICAL, markup=False)
    for move in status["moves"]:
        when = instant(move["seen_at"]) if move["seen_at"] else "since the last run"
        out.print(
            f"  moved {when}: {move['topic']}-{move['partition']} from {move['from']} to {move['to']}", markup=False
        )
    for reset in status["resets"]:
        out.print(f"  {_reset(reset)}", markup=False)
    if status["open"]:
        batch = status["open"]
        since = f" since {instant(batch['since'])}" if batch["since"] else ""
        out.print(f"  open: batch {batch['batch_id']} is {batch['state']}{since}", markup=False)
    _print_batches(status)


def _said_of(run: dict[str, Any], status: dict[str, Any]) -> str:
    """What the last run said, unless the verdict has it."""
    is_stopped = run["error"] == "StoppedError" and status["verdict"] == Verdict.STOPPED
    is_told = is_stopped or (run["error"] and run["said"] in status["reason"])
    return "it failed, as said above" if is_told else str(run["said"])


def _waited(seconds: float | None) -> str:
    return f" (the oldest record has waited {timedelta(seconds=round(seconds))})" if seconds else ""


def _print_batches(status: dict[str, Any]) -> None:
    """The last batches, why some ended as they did, and what people answered."""
    if status["batches"]:
        rows = [row | {"opened_at": instant(row["opened_at"])} for row in status["batches"]]
        columns = ("batch_id", "state", "opened_at", "deliveries", "records", "rows", "rejected", "seconds")
        out.print(table(rows, *columns))
    for batch in status["batches"]:
        if batch["reason"] and batch["closed_at"]:
            out.print(f"  batch {batch['batch_id']} is {batch['state']}: {headline(batch['reason'])}", markup=False)
    for answered in status["clearances"]:
        note = f": {answered['note']}" if answered["note"] else ""
        who = f"{answered['by']} answered {answered['answer']}, {instant(answered['at'])}"
        out.print(f"  batch {answered['batch_id']}: {who}{note}", markup=False)


def _reset(reset: dict[str, Any]) -> str:
    moved = [f"{each['topic']}-{each['partition']} to {each['to']}" for each in reset["changes"]]
    few = ", ".join(moved[:_FEW]) + (f" and {len(moved) - _FEW} more" if moved[_FEW:] else "")
    what = "reset" if reset["done"] else "reset, which may not have been carried out,"
    note = f": {reset['note']}" if reset["note"] else ""
    return f"{what} by {reset['by']}, {instant(reset['at'])}: {few}{note}"


def print_finding(finding: dict[str, Any], before: str = "", name: str = "") -> None:
    """The verdict, why, since when, and what to do, in as many lines as the reason has."""
    verdict = finding["verdict"]
    so = "runs have failed since" if verdict == Verdict.STALLED else "since"
    since = f" ({so} {instant(finding['since'])})" if finding["since"] else ""
    parts = [f"{verdict} {name}".rstrip() + (f": {finding['reason']}{since}" if finding["reason"] else "")]
    parts += [finding["action"]] if finding["action"] else []
    out.print(before + ". To do: ".join(parts), style=_STYLES.get(verdict, _CRITICAL), markup=False)
