"""Withdraw: take away what was staged under receipts that are left behind, so that nobody publishes it any more."""

from collections.abc import Iterable

from tidegate.model.manifest import Published
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.steps.context import Context


def withdraw(ctx: Context, positions: Iterable[Committed]) -> tuple[Published, ...]:
    """What is published of the batches that are planned from these positions; nothing more will be.

    For whoever gives a group a new incarnation while the ledger knows no open batch, which may be because it was lost:
    a committer that slept since before that could publish its batch later, and its records would come twice.
    """
    name, group = ctx.subscription.name, ctx.subscription.consumer.group_id
    found: list[Published] = []
    for receipt in {receipt for position in positions if (receipt := Receipt.parse(position.metadata))}:
        candidates = [
            receipt.next(each) for each in (receipt.batch_after(group), receipt.batch_after_in_0_1(name, group))
        ]
        for of in candidates:
            ctx.lake.set_aside(ctx.output, of)
        published = next(filter(None, (ctx.lake.published(ctx.output, of) for of in candidates)), None)
        if published is not None:
            found.append(published)
    return tuple(found)
