"""The strategy `checkpoint`: positions, and a state that the job keeps, are stored together outside of Kafka.

SmallRye's `checkpoint`. The job is handed the state that the last committed batch left, and whatever it makes of it is
stored in the transaction that moves the positions, so that one never goes without the other.
"""

from datetime import datetime, timedelta

from tidegate.model.batch import Batch, State
from tidegate.strategies.commit.after_processing import AfterProcessing

MAX_AGE = "checkpoint.unsynced-state-max-age.ms"


class Checkpoint(AfterProcessing):
    """As AfterProcessing, and the positions are the ledger's."""


def unsynced(batch: Batch, since: datetime | None, now: datetime, max_age_ms: int) -> timedelta | None:
    """For how long what a job made has waited to be stored, if that is longer than `max_age_ms`; 0 allows any time.

    `since` is when the batch came into its state: when its delivery ended, or when it was published.
    """
    if batch.commit_strategy != "checkpoint" or batch.state not in (State.PROCESSED, State.PUBLISHED):
        return None
    if since is None or max_age_ms <= 0:
        return None
    age = now - since
    return age if age > timedelta(milliseconds=max_age_ms) else None
