"""`tidegate batches` and `tidegate batch show`: what the ledger has of a subscription's batches, and of one of them."""

from typing import Annotated, Any

import typer

from tidegate.cli.console import Json, ending, instant, out, print_json, table
from tidegate.cli.settings import Name, settings_here
from tidegate.model.counting import counted
from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.model.records import headline

app = typer.Typer(no_args_is_help=True, help="Show one batch.")

_COLUMNS = ("batch_id", "state", "opened_at", "seconds", "deliveries", "records", "rows", "rejected", "filtered")
_ENDED = {"failed": "failed", "given-up": "was given up for another output"}
_DELIVERIES = ("delivery", "outcome", "started_at", "seconds", "cause")


def batches(
    name: Name,
    limit: Annotated[int, typer.Option(min=1, help="How many batches to list.")] = 20,
    *,
    as_json: Json = False,
) -> None:
    """List a subscription's batches from the ledger, the newest first, also where its definition is gone.

    Nothing is changed, but a ledger of an older version is migrated.

    The table has the counts of each batch's run; what `tidegate reprocess` has made of one since stands below it.
    """
    from tidegate.ledger.generations import SqlGenerations  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.ledger.holders import has_tables  # noqa: PLC0415 - see above
    from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - see above
    from tidegate.monitoring.batch_document import listed_batch  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.runtime.unmade_ledger import require_runs  # noqa: PLC0415 - see above

    settings = settings_here()
    found = SqlLedger(settings.ledger).history(name, limit) if has_tables(settings.ledger) else ()
    if not found:
        AllDefinitions(settings).load(name)  # raises: a name that nobody has is a slip
        require_runs(name, settings.ledger)
    documents: list[dict[str, Any]] = []
    if found:
        generations = SqlGenerations(settings.ledger)
        again = {each.id for each in generations.reprocessed(name) if not each.is_open}
        of_batch = (generations.of(each.batch.id) if each.batch.id in again else () for each in found)
        documents = [listed_batch(*each) for each in zip(found, of_batch, strict=True)]
    if as_json:
        print_json(documents)
    elif documents:
        out.print(table([each | {"opened_at": instant(each["opened_at"])} for each in documents], *_COLUMNS))
        for each in documents:
            if each["state"] == "committed" and each["reason"]:
                out.print(f"  batch {each['batch_id']}: {headline(each['reason'])}", markup=False)
        for each in filter(None, (document["reprocessed"] for document in documents)):
            made = f"{counted(each['rows'], 'row')}, {each['rejected']:,} rejected, {each['filtered']:,} filtered"
            out.print(f"  batch {each['batch_id']} is generation {each['generation']} now: {made}", markup=False)
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
    from tidegate.monitoring.batch_document import batch_document  # noqa: PLC0415 - see above
    from tidegate.runtime.unmade_ledger import AFTER_RUNS, no_run  # noqa: PLC0415 - see above

    settings = settings_here()
    try:
        document = batch_document(batch_record(settings.ledger, batch_id), settings.logs)
    except StaleError:
        if missing := no_run(settings.ledger):
            raise WrongDefinitionError(f"{missing}; {AFTER_RUNS}") from None
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
    rows = {
        name: "not known" if batch[name] is None else f"{batch[name]:,}" for name in ("rows", "rejected", "filtered")
    }
    size = sum(file["bytes"] for file in batch["files"])
    out.print(
        f"  {counted(batch['records'], 'record')} in {counted(len(batch['files']), 'landed file')} ({size:,} bytes); "
        f"rows: {rows['rows']}, rejected: {rows['rejected']}, filtered: {rows['filtered']}",
        markup=False,
    )
    out.print(table(batch["ranges"], "topic", "partition", "start", "end", "planned_end", "records"))
    if batch["tries"]:
        _print_deliveries(batch["tries"])
    for each in batch["generations"]:
        out.print(f"  generation {each['generation']}, by {each['by']}: {_what_became(each)}", markup=False)
    for decided in batch["decisions"]:
        who = f"{decided['by']} answered {decided['answer']}, {instant(decided['at'])}"
        out.print(f"  {who}{ending(decided['note'])}", markup=False)


def _what_became(generation: dict[str, Any]) -> str:
    output, began = generation["output"], instant(generation["begun_at"])
    if generation["state"] == "replaced":
        rows = "not known" if generation["rows"] is None else f"{generation['rows']:,}"
        return f"it is in {output}; rows: {rows}"
    if generation["ended_at"]:
        return f"it {_ENDED[generation['state']]}, and isn't in {output}"
    return f"begun {began}, and not ended: it may be in {output}; `tidegate reprocess` finds out, and finishes it"


def _print_deliveries(tries: list[dict[str, Any]]) -> None:
    rows = [each | {"started_at": instant(each["started_at"])} for each in tries]
    out.print(table(rows, *_DELIVERIES))
    for each in tries:
        if each["reason"]:
            out.print(f"  delivery {each['delivery']}: {headline(each['reason'])}", markup=False)
        if each["log"]:
            out.print(f"  its job's log: {each['log']}", markup=False)
