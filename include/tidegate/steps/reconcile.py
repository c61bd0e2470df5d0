"""Reconcile: what became of the open batch, as Kafka, the lake and the ledger tell it."""

import logging
from dataclasses import dataclass

from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import message
from tidegate.model.offsets import Range
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, Lake, Ledger, OffsetStore, RecordSource
from tidegate.steps.group_position import of_partitions, refuse_loss
from tidegate.steps.loss import Lost, lost_positions, recreated
from tidegate.steps.ownership import refuse_other_store
from tidegate.steps.publish import stopped
from tidegate.steps.selection import partitions_of
from tidegate.strategies.commit.interpret import (
    Abandon,
    AlreadyCommitted,
    OffsetsCommitted,
    Resume,
    ResumeFrom,
    interpret,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Reconciles the open batches of one subscription."""

    subscription: Subscription
    source: RecordSource
    offsets: OffsetStore
    ledger: Ledger
    lake: Lake

    def reconcile(self, batch: Batch) -> Batch | None:
        """The batch, if it is to be delivered again or its commit finished; None when it takes another look.

        Raises LostDataError if its records are gone before they landed, unless `on-data-loss: reset`,
        WrongDefinitionError if its positions aren't kept where the definition says now.
        """
        refuse_other_store(batch, self.subscription)
        committed = self.offsets.committed([r.at for r in batch.ranges])
        match interpret(batch.commit_policy, batch, committed):
            case Resume() | ResumeFrom():
                if not committed and self.offsets.durable:
                    log.warning("the group's offsets vanished: the ledger knows where it stands (%s)", batch)
                return self._go_on(batch)
            case OffsetsCommitted():
                log.info("a batch was committed on receipt, which the ledger didn't know: it is noted (%s)", batch)
                self.ledger.received(batch.id)
            case AlreadyCommitted():
                log.info("a batch was committed, which the ledger didn't know: it is noted (%s)", batch)
                self.ledger.close(batch.id, batch.final_outcome)
            case Abandon(reason):
                self._abandon(batch, reason)
        return None

    def _go_on(self, batch: Batch) -> Batch | None:
        if batch.state is State.PUBLISHED:
            return self._still_there(batch)
        published = self.lake.published(batch.output, batch.id)
        if published is not None:
            log.warning("a batch is in the lake, which the ledger didn't know: it is taken as published (%s)", batch)
            self.ledger.adopt(batch.id, published)
            return None
        if batch.state is State.PLANNED and (lost := self._lost(batch)):
            refuse_loss(self.subscription, lost)
            self._abandon(batch, f"records of it were lost before they landed: {'; '.join(map(str, lost))}")
            return None
        if batch.state is State.HELD:
            raise stopped(batch)
        log.info("the run goes on with an open batch, which is %s (%s)", batch.condition, batch)
        return batch

    def _still_there(self, batch: Batch) -> Batch | None:
        """A published batch, without the partitions that were deleted since: nothing can be committed for them."""
        exist = partitions_of(self.subscription, self.source)
        gone = [r for r in batch.ranges if r.at not in exist]
        published = self.lake.published(batch.output, batch.id) if gone else None
        if published is None:
            return batch
        said = ", ".join(str(r.at) for r in gone)
        if len(gone) == len(batch.ranges):
            self._abandon(batch, f"it is published, and nothing can be committed: {said} isn't there any more")
        else:
            log.warning("%s isn't there any more, nothing is committed for it (%s)", said, batch)
            self.ledger.adopt(batch.id, of_partitions(published, exist))
        return None

    def _abandon(self, batch: Batch, reason: str) -> None:
        """The lake first, so that a committer that slept finds nothing to publish; a crash in between repeats it."""
        log.warning("%s", message(f"the batch is abandoned: {reason}", batch))
        self.lake.set_aside(batch.output, batch.id)
        self.ledger.close(batch.id, Outcome.ABANDONED, reason)

    def _lost(self, batch: Batch) -> list[Lost]:
        """What of a planned batch can't be read any more."""
        unread = self._unread(batch)
        exist = set(partitions_of(self.subscription, self.source))
        marks = self.source.watermarks([r.at for r in unread if r.at in exist])
        noted = self.ledger.look(batch.subscription).topic_ids
        gone = recreated(self.source.topic_ids({r.topic for r in unread if r.at in exist}), noted)
        gone |= {r.topic: "isn't there any more" for r in unread if r.at not in exist}
        return lost_positions({r.at: Committed(r.start) for r in unread}, marks, gone)

    def _unread(self, batch: Batch) -> list[Range]:
        members = [member for member in batch.members_with_work() if not self.ledger.reported(batch.id, member)]
        return [r for member in members for r in batch.share(member)]
