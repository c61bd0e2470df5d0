"""The strategy `on-receipt`: a batch's offsets are committed once it has landed, whatever becomes of it then.

Hitachi's `commit after receipt`. A batch is processed from its landing, so its records outlive a failed job; they
don't outlive a lost ledger, because Kafka says no more that there is anything left to do.
"""

from collections.abc import Mapping

from tidegate.model.batch import Batch
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Committed
from tidegate.strategies.commit.after_processing import AfterProcessing
from tidegate.strategies.commit.decision import Abandon, AlreadyCommitted, Decision, OffsetsCommitted, Resume
from tidegate.strategies.commit.strategy import CommitPoint


class OnReceipt:
    """Commits stand before process; an overrun goes on, because nobody else will read the records again."""

    moment = CommitPoint.ON_RECEIPT
    keeps_deadline = False

    def reconcile(self, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
        """Once the offsets are committed, the group's positions say nothing about the batch any more.

        They are if any partition stands where only that commit leaves it and none where it began: whoever moved the
        others came later, and what landed of all of them is still to be processed.
        """
        if batch.offsets_committed:
            return Resume()
        decision = AfterProcessing().reconcile(batch, committed)
        if isinstance(decision, Abandon) and _was_committed(batch, committed):
            return OffsetsCommitted()
        return OffsetsCommitted() if isinstance(decision, AlreadyCommitted) else decision


def _was_committed(batch: Batch, committed: Mapping[TopicPartition, Committed]) -> bool:
    begun = [committed.get(r.at) == Committed(r.start, str(batch.receipt)) for r in batch.ranges]
    ended = [committed.get(r.at) == Committed(r.end, str(batch.next_receipt)) for r in batch.ranges]
    return any(ended) and not any(begun)
