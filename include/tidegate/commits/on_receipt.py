"""The strategy `on-receipt`: a batch's offsets are committed once it has landed, whatever becomes of it then.

Hitachi's `commit after receipt`. A batch is processed from its landing, so its records outlive a failed job; they
don't outlive a lost ledger, because Kafka says no more that there is anything left to do.
"""

from collections.abc import Mapping

from tidegate.batch import Batch
from tidegate.commits.after_processing import AfterProcessing
from tidegate.commits.decision import Decision, GoOn, Note, Received
from tidegate.commits.strategy import Moment
from tidegate.ports import Committed
from tidegate.positions import TopicPartition


class OnReceipt:
    """Commits stand before process; an overrun goes on, because nobody else will read the records again."""

    moment = Moment.ON_RECEIPT
    keeps_deadline = False

    def reconcile(self, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
        """Once the offsets are committed, the group's positions say nothing about the batch any more."""
        if batch.offsets_committed:
            return GoOn()
        decision = AfterProcessing().reconcile(batch, committed)
        return Received() if isinstance(decision, Note) else decision
