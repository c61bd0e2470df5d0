"""The default strategy: a batch's offsets are committed after the Spark job succeeded for every record of it."""

from collections.abc import Mapping, Sequence

from tidegate.model.batch import Batch
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.strategies.commit.decision import Abandon, AlreadyCommitted, Decision, Resume
from tidegate.strategies.commit.strategy import CommitPoint


class AfterProcessing:
    """Hitachi's `commit after processing`, Queue-Over-Http's commit once the whole pack is resolved."""

    moment = CommitPoint.AFTER_PUBLISHING
    keeps_deadline = True

    def reconcile(self, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
        """What the positions mean for the batch.

        All at its ends under the receipt of its own commit: it was committed. All at its starts under the
        receipt it was planned from, or some of them at their ends (a commit of ours that died half-way), or
        without any position (a group's offsets expire; that is nobody's move): go on. Anything else: the group
        was moved by somebody.
        """
        moved = [(r, committed.get(r.at)) for r in batch.ranges]
        if all(_is(position, r.end, batch.next_receipt) for r, position in moved):
            return AlreadyCommitted()
        foreign = [
            (r, position)
            for r, position in moved
            if position is not None
            and not _is(position, r.start, batch.receipt)
            and not _is(position, r.end, batch.next_receipt)
        ]
        return Abandon(_describe(foreign)) if foreign else Resume()


def _is(position: Committed | None, offset: int, receipt: Receipt) -> bool:
    return position is not None and (position.offset, position.metadata) == (offset, str(receipt))


def _describe(foreign: Sequence[tuple[Range, Committed]]) -> str:
    said = (
        f"{r.at} was planned as [{r.start}, {r.end}) and stands at {position.offset}"
        + ("" if Receipt.parse(position.metadata) else " without a receipt of ours")
        for r, position in foreign
    )
    is_ours = all(Receipt.parse(position.metadata) for _, position in foreign)
    what = "the group has gone on without it" if is_ours else "the group was moved by somebody else"
    return f"{what}: {'; '.join(said)}"
