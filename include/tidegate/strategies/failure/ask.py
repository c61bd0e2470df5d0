"""A person is asked: deliver again, dead-letter, skip or stop."""

from tidegate.model.batch import Batch, Resolution
from tidegate.strategies.failure.fail import Fail, where
from tidegate.strategies.failure.strategy import AtLimit


class Ask(Fail):
    """A delivery that rejects records fails as with `fail`; at the limit the batch waits for an answer."""

    def at_limit(self, batch: Batch) -> AtLimit:
        """Ask."""
        return AtLimit(Resolution.ASK, f"the retry limit was reached: {batch.reason}\n  its records: {where(batch)}")
