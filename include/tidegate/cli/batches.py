"""`tidegate batches` and `tidegate batch show`: what the ledger has of a subscription's batches, and of one of them."""

from typing import Annotated, Any

import typer

from tidegate.cli.console import Json, instant, out, print_json, table
from tidegate.cli.settings import defined_names, settings_here
from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.model.records import headline

app = typer.Typer(no_args_is_help=True, help="Show one batch.")

_COLUMNS = ("batch_id", "state", "opened_at", "seconds", "deliveries", "records", "rows", "rejected", "filtered")
_DELIVERIES = ("delivery", "outcome", "started_at", "seconds", "cause")


def batches(
    name: Annotated[
        str,
        typer.Argument(help="The subscription; its definition may be gone.", autocompletion=defined_names),
    ],
    limit: Annotated[int, typer.Option(min=1, help="How many batches to list.")] = 20,
    *,
    as_json: Json = False,
) -> None:
    """List a subscription's batches from the ledger, the newest first. Nothing is changed."""
    from tidegate.ledger.holders import is_made  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.runtime.status import outcome_to_json  # noqa: PLC0415 - see above

    settings = settings_here()
    found = SqlLedger(settings.ledger).history(name, limit) if is_made(settings.ledger) else ()
    if not found:
        AllDefinitions(settings).load(name)  # raises: a name that nobody has is a slip
    documents = [outcome_to_json(entry) for entry in found]
    if as_json:
        print_json(documents)
    elif documents:
        out.print(table([each | {"opened_at": instant(each["opened_at"])} for each in documents], *_COLUMNS))
    else:
        out.print(f"{name} has no batch yet: `tidegate run {name}` or its DAG makes one", markup=False)


@app.command("show")
def show(
    batch_id: Annotated[str, typer.Argument(help="The batch's id, as `tidegate batches` and messages show it.")],
    *,
    as_json: Json = False,
) -> None:
    """Show one batch: ranges, times, files, deliveries and why they failed, and who decided what."""
    from tidegate.ledger.batch_record import batch_record  # noqa: PLC0415 - see above
    from tidegate.runtime.batch_document import batch_document  # noqa: PLC0415 - see above

    settings = settings_here()
    try:
        document = batch_document(batch_record(settings.ledger, batch_id), settings.logs)
    except StaleError:
        raise WrongDefinitionError(
            f"the ledger has no batch {batch_id}: `tidegate batches NAME` lists a subscription's; those that "
            "`tidegate prune` removed aren't there any more"
        ) from None
    if as_json:
        print_json(document)
    else:
        _print(document)


def _print(batch: dict[str, Any]) -> None:
    out.print(f"batch {batch['batch_id']} of {batch['subscription']} is {batch['state']}", style="bold", markup=False)
    if batch["reason"]:
        out.print(f"  why: {batch['reason']}", markup=False)
    for said, at in (("planned", "opened_at"), ("landed", "landed_at"), ("ended", "closed_at")):
        if batch[at]:
            took = f", after {batch['seconds']:,} s" if at == "closed_at" else ""
            out.print(f"  {said} {instant(batch[at])}{took}", markup=False)
    is_committed = "committed" if batch["offsets_committed"] else "not committed"
    out.print(f"  group {batch['group']}, {batch['commit_strategy']}: its offsets are {is_committed}", markup=False)
    if batch["published_in"]:
        out.print(f"  published in {batch['published_in']}", markup=False)
    counted = {
        name: "not known" if batch[name] is None else f"{batch[name]:,}" for name in ("rows", "rejected", "filtered")
    }
    size = sum(file["bytes"] for file in batch["files"])
    out.print(
        f"  {batch['records']:,} records in {len(batch['files'])} landed files ({size:,} bytes); rows: "
        f"{counted['rows']}, rejected: {counted['rejected']}, filtered: {counted['filtered']}",
        markup=False,
    )
    out.print(table(batch["ranges"], "topic", "partition", "start", "end", "planned_end", "records"))
    if batch["tries"]:
        _print_deliveries(batch["tries"])
    for each in batch["generations"]:
        out.print("  generation {generation} is {state} in {output}, by {by}: {rows} rows".format(**each), markup=False)
    for decided in batch["decisions"]:
        note = f": {decided['note']}" if decided["note"] else ""
        who = f"{decided['by']} answered {decided['answer']}, {instant(decided['at'])}"
        out.print(f"  {who}{note}", markup=False)


def _print_deliveries(tries: list[dict[str, Any]]) -> None:
    rows = [each | {"started_at": instant(each["started_at"])} for each in tries]
    out.print(table(rows, *_DELIVERIES))
    for each in tries:
        if each["reason"]:
            out.print(f"  delivery {each['delivery']}: {headline(each['reason'])}", markup=False)
        if each["log"]:
            out.print(f"  its job's log: {each['log']}", markup=False)
