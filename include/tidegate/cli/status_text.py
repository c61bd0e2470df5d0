"""What `tidegate status` prints for people, out of the documents that it prints with --json."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from tidegate.cli.console import ending, instant, out, table
from tidegate.model.counting import counted, first_of
from tidegate.model.records import headline
from tidegate.monitoring.health import Verdict

_STYLES = {"OK": "green", "WARN": "yellow", "REWOUND": "yellow"}
_CRITICAL = "red"
_FEW = 3  # partitions of a reset


def print_all(documents: Iterable[dict[str, Any]]) -> None:
    """Each subscription with all that there is to say; only why, and its open batch, of one that isn't looked at."""
    for document in documents:
        if "group" in document:
            _print_status(document)
        else:
            out.print(f"[bold]{document['subscription']}[/bold]")
            print_finding(document, "  ")
            _print_open(document)


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
        wait = f"{counted(waiting, 'dead letter')} {'waits' if waiting == 1 else 'wait'}"
        out.print(f"  {wait} to be redriven: {how}", markup=False)
    for loss in status["losses"]:
        out.print(f"  {_lost(loss)}", style=_CRITICAL, markup=False)
    for move in status["moves"]:
        when = instant(move["seen_at"]) if move["seen_at"] else "since the last run"
        out.print(
            f"  moved {when}: {move['topic']}-{move['partition']} from {move['from']} to {move['to']}", markup=False
        )
    for reset in status["resets"]:
        out.print(f"  {_reset(reset)}", markup=False)
    _print_open(status)
    _print_batches(status)


def _print_open(status: dict[str, Any]) -> None:
    if batch := status.get("open"):
        since = f" since {instant(batch['since'])}" if batch["since"] else ""
        out.print(f"  open: batch {batch['batch_id']} is {batch['state']}{since}", markup=False)


def _lost(loss: dict[str, Any]) -> str:
    """A position within what the partition held belonged to an older topic of the name."""
    at = f"lost: {loss['topic']}-{loss['partition']} stood at {loss['position']}"
    if loss["earliest"] <= loss["position"] <= loss["end"]:
        return f"{at} when its topic was created again; the new one was read from {loss['earliest']} on"
    return f"{at} while it held [{loss['earliest']}, {loss['end']})"


def _said_of(run: dict[str, Any], status: dict[str, Any]) -> str:
    """What the last run said, unless the verdict has it, or somebody has done what it asked for."""
    if run["answered"]:
        return "it failed, and was answered since"
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
        who = f"{answered['by']} answered {answered['answer']}, {instant(answered['at'])}"
        out.print(f"  batch {answered['batch_id']}: {who}{ending(answered['note'])}", markup=False)


def _reset(reset: dict[str, Any]) -> str:
    moved = [f"{each['topic']}-{each['partition']} to {each['to']}" for each in reset["changes"]]
    what = "reset" if reset["done"] else "reset, which may not have been carried out,"
    return f"{what} by {reset['by']}, {instant(reset['at'])}: {first_of(moved, _FEW)}{ending(reset['note'])}"


def print_finding(finding: dict[str, Any], before: str = "", name: str = "") -> None:
    """The verdict, why, since when, and what to do, in as many lines as the reason has."""
    verdict = finding["verdict"]
    away = "last answer to a run" if finding.get("answered_at") else "first tried"
    so = {Verdict.STALLED: "runs have failed since", Verdict.UNREACHABLE: away}.get(verdict, "since")
    since = f" ({so} {instant(finding['since'])})" if finding["since"] else ""
    parts = [f"{verdict} {name}".rstrip() + (f": {finding['reason']}{since}" if finding["reason"] else "")]
    parts += [finding["action"]] if finding["action"] else []
    out.print(before + ". To do: ".join(parts), style=_STYLES.get(verdict, _CRITICAL), markup=False)
