"""`tidegate status` and `tidegate watch`: where subscriptions stand, once or again and again."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, out, print_json
from tidegate.cli.settings import NameOrAll, all_names, settings_here
from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError, UnavailableError, UnusableLedgerError

_UNKNOWN = 3  # of monitoring plugins
_WATCHED = 5  # of the last batches
_LEDGER = "correct TIDEGATE_LEDGER (`tidegate settings` shows it), or what it names"


def status(
    name: NameOrAll = None,
    *,
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, help="How many of the last batches to show.")] = 10,
    for_monitor: Annotated[
        bool, typer.Option("--check", help="Print one line per subscription, and exit as monitoring plugins do.")
    ] = False,
) -> None:
    """Show each subscription's verdict, positions, lag, open batch, last batches and last run.

    Nothing is changed, but a ledger of an older version is migrated.

    Exit status of --check: 0 OK, 1 WARN or REWOUND, 2 STALLED, STOPPED or UNREACHABLE, 3 the ledger doesn't answer.
    """
    from tidegate.cli import status_text  # noqa: PLC0415 - see above

    settings = settings_here()
    try:
        documents = _documents(name, settings, limit)
    except (UnavailableError, UnusableLedgerError) as error:
        if not (as_json or for_monitor):
            raise
        raise typer.Exit(_print_ledger_error(error, as_json=as_json, for_monitor=for_monitor)) from None
    if as_json:
        print_json(documents[0] if name else documents)
    elif for_monitor:
        status_text.print_lines(documents)
    else:
        status_text.print_all(documents)
    if code := _monitored(documents) if for_monitor else _looked_at(documents):
        raise typer.Exit(code)


def watch(
    name: NameOrAll = None,
    *,
    every: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="How long to wait between updates.")] = 5.0,
) -> None:
    """Show the status again and again until Ctrl-C. Nothing is changed, but a ledger of an older version is migrated.

    On a terminal the whole status is redrawn; elsewhere a line is printed for each change of a verdict, lag or batch.
    """
    settings = settings_here()
    names = all_names(settings)  # raises: nothing would ever be seen
    if name and name not in names:
        _undefined(name, names, settings)  # raises, too
    with suppress(KeyboardInterrupt):
        said: set[str] = set()
        while True:
            with out.capture() as captured:
                _print_look(name, settings)
            seen = captured.get()
            if out.is_terminal:
                out.clear()
                out.print(Text.from_ansi(seen))
                out.print(f"{datetime.now(UTC):%H:%M:%S} UTC, every {every:g} s; Ctrl-C ends", style="dim")
            else:
                lines = seen.splitlines()
                for line in lines:
                    if line not in said:
                        out.print(line, markup=False)
                said = set(lines)
            time.sleep(every)


def _print_look(name: str | None, settings: Settings) -> None:
    """What there is to see now: the whole status on a terminal, elsewhere a line for each subscription."""
    from tidegate.cli import status_text  # noqa: PLC0415 - see above

    try:
        documents = _documents(name, settings, _WATCHED)
    except TidegateError as error:  # a ledger that is away may be back
        out.print(f"UNKNOWN: {error}", style="red", markup=False)
    else:
        (status_text.print_all if out.is_terminal else status_text.print_brief)(documents)


def _documents(name: str | None, settings: Settings, limit: int) -> list[dict[str, Any]]:
    """The status of one, or of all and of open batches without a definition. Raises DefinitionError for no such one."""
    from tidegate.monitoring.observing import orphans, status_documents  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    connections = connections_here()
    names = AllDefinitions(settings).names()
    if name is None:
        left = [*orphans(names, settings)]
        if not names and not left:
            all_names(settings)  # raises
        return [*status_documents(names, settings, connections, limit), *left]
    if name in names:
        return [*status_documents([name], settings, connections, limit)]
    return _undefined(name, names, settings)


def _undefined(name: str, names: Sequence[str], settings: Settings) -> list[dict[str, Any]]:
    """The open batch of one that isn't defined any more. Raises DefinitionError where there is none."""
    from tidegate.monitoring.observing import orphans  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    left = [document for document in orphans(names, settings) if document["subscription"] == name]
    if not left:
        AllDefinitions(settings).load(name)  # raises
    return left


def _print_ledger_error(error: TidegateError, *, as_json: bool, for_monitor: bool) -> int:
    """Print the one verdict that there is without a ledger; the exit status.

    A ledger that is away may be back, and so the verdict isn't known; one that can't be used stays so.
    """
    from tidegate.cli.status_text import print_finding  # noqa: PLC0415 - see above

    is_unusable = isinstance(error, UnusableLedgerError)
    finding = {
        "verdict": "UNREACHABLE" if is_unusable else "UNKNOWN",
        "reason": str(error),
        "since": None,
        "action": _LEDGER if is_unusable else None,
    }
    if as_json:
        print_json(finding)
    else:
        print_finding(finding)
    if is_unusable:
        return 2
    return _UNKNOWN if for_monitor else 1


def _monitored(documents: Sequence[Mapping[str, Any]]) -> int:
    """The exit status for a monitor: that of the worst verdict."""
    from tidegate.monitoring.health import Verdict  # noqa: PLC0415 - see above

    return max(Verdict(document["verdict"]).exit_status for document in documents)


def _looked_at(documents: Sequence[Mapping[str, Any]]) -> int:
    """The exit status for a person: whether every subscription could be looked at."""
    if any("group" not in document and "orphan" not in document for document in documents):
        return 2
    return 1 if any(document.get("unavailable") for document in documents) else 0
