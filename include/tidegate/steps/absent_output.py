"""An output that isn't to be seen from here: nothing is published beside what is there already."""

from tidegate.model.batch import Batch, State
from tidegate.model.errors import UnavailableError, message
from tidegate.model.output_uri import parse_output
from tidegate.ports import Ledger
from tidegate.steps.context import Context


def refuse_absent(ctx: Context, output: str, waiting: Batch | None = None) -> None:
    """Raise UnavailableError where this machine sees nothing in an output, and batches were published into it.

    `waiting` is the open batch that is to be published there, if there is one.
    """
    if not ctx.lake.is_absent(output):
        return
    published = newest_published(ctx.ledger, ctx.subscription.name, output, None)
    if published is not None:
        written = parse_output(output).written
        why = f"this machine sees nothing in {written}, and batch {published.id} was published into it"
        remedy = f"mount it here, as on each machine that runs tasks; {_or(waiting)}"
        raise UnavailableError(message(why, ctx.place, remedy))


def newest_published(ledger: Ledger, subscription: str, output: str, limit: int | None) -> Batch | None:
    """The newest batch that was published into an output, among so many of the subscription's newest ones, or all."""
    batches = (entry.batch for entry in ledger.history(subscription, limit))
    return next((batch for batch in batches if batch.is_published and batch.output == output), None)


def _or(waiting: Batch | None) -> str:
    removed = "if all of it was removed on purpose, make it again with an empty folder in it, and run again"
    if waiting is None or waiting.state is State.PUBLISHED:
        return removed
    again = f"`tidegate group reset {waiting.subscription} --by 0 --abandon` plans the open batch anew"
    return f"if it was moved, and the definition's output with it, {again}; {removed}"
