"""`tidegate plan`: what the next run would do, before it does, and before a changed definition is deployed."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, out, print_json, table
from tidegate.cli.pipeline import pipeline_here, told_if_slow, warn_of_no_run
from tidegate.cli.settings import NameOrAll, all_names, settings_here
from tidegate.config.settings import Settings
from tidegate.model.counting import counted
from tidegate.model.errors import TidegateError, UnavailableError
from tidegate.model.subscription import Subscription
from tidegate.ports import Connections

_FEW = 20  # partitions that are listed
_ENDED = ("ignoring", "dead-lettering", "retrying")  # of such a batch nothing is processed
_UNAVAILABLE, _REFUSED, _MOVED = 1, 2, 3  # exit statuses


def plan(name: NameOrAll = None, *, as_json: Json = False) -> None:
    """Show what the next run would do, and how that differs from the last run.

    Nothing is changed, but a ledger of an older version is migrated.

    Exit status: 0 the next run continues where the last one ended, or is the first, 1 a broker or the ledger doesn't
    answer, or the output isn't mounted here, 2 the run would be refused, 3 it would read records again, or skip unread
    ones.
    """
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.runtime.looks import in_order  # noqa: PLC0415 - see above

    settings = settings_here()
    names = all_names(settings) if name is None else [name]
    definitions, connections = AllDefinitions(settings), connections_here()
    beside = definitions.at_hand()

    def look(each: str) -> tuple[dict[str, Any], int]:
        return _judged(each, lambda: _previewed(definitions.load_to_run(each, beside), settings, connections))

    documents, codes = [], [0]
    with told_if_slow():
        for document, code in in_order(names, look):
            documents.append(document)
            codes.append(code)
            if not as_json:
                _print(document, is_refused=code == _REFUSED)
    with suppress(TidegateError):  # each preview has said it
        warn_of_no_run(settings)
    if as_json:
        print_json(documents if name is None else documents[0])
    if code := next((code for code in (_REFUSED, _UNAVAILABLE, _MOVED) if code in codes), 0):
        raise typer.Exit(code)


def _judged(name: str, preview: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """What the next run would do, or why it would be refused, and the exit status for it."""
    try:
        document = preview()
    except UnavailableError as error:
        return {"subscription": name, "error": str(error)}, _UNAVAILABLE
    except TidegateError as error:
        return {"subscription": name, "error": str(error)}, _REFUSED
    return document, _MOVED if document["reread"] or document["skipped"] else 0


def _previewed(subscription: Subscription, settings: Settings, connections: Connections) -> dict[str, Any]:
    from tidegate.operations.preview_document import preview_document  # noqa: PLC0415 - see above
    from tidegate.runtime.unmade_ledger import readable_ledger  # noqa: PLC0415 - see above

    with readable_ledger(settings) as readable, pipeline_here(subscription, readable, connections) as pipeline:
        return preview_document(pipeline)


def _print(document: dict[str, Any], *, is_refused: bool) -> None:
    name = document["subscription"]
    if document["error"]:
        what = "the next run would be refused: " if is_refused else ""
        out.print(f"{name}: {what}{document['error']}", style="red", markup=False)
        return
    out.print(f"{name}: {document['next']}", style="bold", markup=False)
    for change in document["changes"]:
        out.print(f"  new: {change}", markup=False)
    for done in document["first"]:
        out.print(f"  first: {done}", markup=False)
    for what, count in (("read again", document["reread"]), ("passed over unread", document["skipped"])):
        if count:
            said = f"{counted(count, 'offset')} {'is' if count == 1 else 'are'} {what}"
            out.print(f"  {said}", style="red", markup=False)
    if before := document["unread_before"]:
        said = f"{counted(before, 'offset')} before where it begins {'is' if before == 1 else 'are'} not read"
        out.print(f"  {said}: {document['earlier']}", style="yellow", markup=False)
    _print_some(document["starts"], "begins", "topic", "partition", "was", "offset", "why")
    is_ended = document["state"] in _ENDED
    _print_some(document["ranges"], "its offsets" if is_ended else "takes", "topic", "partition", "start", "end")
    if document["ranges"] and document["batch_id"]:
        out.print(f"  batch {document['batch_id']}, {document['state']}", markup=False)
    elif document["ranges"]:
        out.print(
            f"  {counted(document['waiting'], 'offset')} {'waits' if document['waiting'] == 1 else 'wait'} in all",
            markup=False,
        )


def _print_some(rows: list[dict[str, Any]], title: str, *columns: str) -> None:
    if rows:
        out.print(f"  {title}:", markup=False)
        out.print(table(rows[:_FEW], *columns))
    if rows[_FEW:]:
        out.print(f"    and {counted(len(rows) - _FEW, 'more partition')} (--json has them)", markup=False)
