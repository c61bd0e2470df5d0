"""For how long the state that a job keeps waits to be stored."""

from datetime import datetime, timedelta

from tidegate.model.batch import Batch, State
from tidegate.model.commit_policy import PositionStore

MAX_AGE = "checkpoint.unsynced-state-max-age.ms"


def unsynced(batch: Batch, since: datetime | None, now: datetime, max_age_ms: int) -> timedelta | None:
    """For how long what a job made has waited to be stored, if that is longer than `max_age_ms`; 0 allows any time.

    `since` is when the batch came into its state: when its delivery ended, or when it was published.
    """
    if batch.commit_policy.store is not PositionStore.LEDGER or batch.state not in (State.PROCESSED, State.PUBLISHED):
        return None
    if since is None or max_age_ms <= 0:
        return None
    age = now - since
    return age if age > timedelta(milliseconds=max_age_ms) else None
