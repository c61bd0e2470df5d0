"""Leaving: the records that go elsewhere with a batch's commit, because they weren't processed."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.batch import Batch, State
from tidegate.commits.decision import Decision, GoOnFrom
from tidegate.failures.chosen import failure_strategy
from tidegate.failures.dead_letters import DeadLetters
from tidegate.failures.delayed_retry import DelayedRetry
from tidegate.ports import Clock, Lake, Landing
from tidegate.positions import starts
from tidegate.records import Failure, Outgoing, Rejected
from tidegate.subscription import Subscription

_BATCH_FAILED = "tidegate.BatchFailed"


@dataclass(frozen=True, slots=True)
class Leaving:
    """Finds such records of one subscription's batches where they are durable already."""

    subscription: Subscription
    landing: Landing
    lake: Lake
    clock: Clock

    def outgoing(self, batch: Batch, stands: Decision) -> Iterable[Outgoing]:
        """What is to be produced: of a published batch its rejected records, of one that is given up all of them.

        Raises CorruptFileError, naming them, where landed files have changed that records are read from.

        `stands` is what the group's positions mean for the batch: what was acknowledged, and committed, is done with.
        """
        now = self.clock.now()
        match batch.state:
            case State.DEAD_LETTERING:
                return DeadLetters.of(self.subscription).outgoing(self._landed(batch, stands), now)
            case State.RETRYING:
                return DelayedRetry.of(self.subscription).outgoing(self._landed(batch, stands), now)
            case State.PUBLISHED if batch.rejected:
                rejected = self.lake.rejected(batch.output, batch.id)
                return failure_strategy(self.subscription).outgoing(rejected, now)
            case _:
                return ()

    def _landed(self, batch: Batch, stands: Decision) -> Iterable[Rejected]:
        failure = Failure(_BATCH_FAILED, batch.reason or _BATCH_FAILED)
        begun = stands.positions if isinstance(stands, GoOnFrom) else starts(batch.ranges)
        rest = {r.at: range(begun[r.at], r.end) for r in batch.ranges}
        self.landing.verify(batch.files)
        landed = self.landing.records([file.uri for file in batch.files], failure)
        return (record for record in landed if record.offset in rest.get(record.at, ()))
