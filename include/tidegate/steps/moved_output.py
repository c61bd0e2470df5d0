"""An output that was moved, with all that is in it, while the definition came to name its new place.

A batch keeps the output that it was planned for, so the outputs themselves tell where its rows are now.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice

from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError
from tidegate.model.manifest import Published
from tidegate.steps.context import Context

_LOOKED_BACK = 100  # batches of an output, of which those that a table lost by a restore may be the newest


def where_rows_are(ctx: Context) -> Callable[[Batch], Batch]:
    """Gives a published batch the output that has its rows, or had them until they were taken back.

    That is the definition's, where any of the newest batches of the batch's own is found, and none of them there any
    more. Each output is looked at once.
    """

    @cache
    def is_moved(output: str) -> bool:
        return output != ctx.output and _is_moved(ctx, output)

    return lambda batch: replace(batch, output=ctx.output) if is_moved(batch.output) else batch


def still_in(ctx: Context, output: str, batch: Batch) -> Published | None:
    """What an output has of a batch; None also of one that its table has lost since."""
    of = batch.next_receipt
    return None if ctx.lake.has_forgotten(output, of) else ctx.lake.published(output, of)


def _is_moved(ctx: Context, output: str) -> bool:
    history = ctx.ledger.history(ctx.subscription.name, None)
    published = (entry.batch for entry in history if entry.batch.output == output and entry.batch.is_published)
    for batch in islice(published, _LOOKED_BACK):
        if _may_have(ctx, output, batch):
            return False
        if still_in(ctx, ctx.output, batch) is not None:
            return True
    return False


def _may_have(ctx: Context, output: str, batch: Batch) -> bool:
    """Whether an earlier output has it; not if nothing there can be asked any more, as without its connection."""
    try:
        return still_in(ctx, output, batch) is not None
    except TidegateError:
        return False
