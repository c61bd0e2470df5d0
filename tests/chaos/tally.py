"""What has happened so far: counted by several threads, read by whoever shows it."""

import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

ABORTED = "AbortedByLibrdkafka"
EXPECTED = frozenset(
    {
        ABORTED,
        "UnavailableError",
        "BrokerUnavailableError",
        "StaleError",
        "OvertakenError",
        "BatchFailedError",
        "EarlierStepError",
        "RecordsFailedError",
        "DeliveryTimeoutError",
        "InterruptedDeliveryError",
        "CommitFailedError",
        "CommitUnknownError",
        "TransitionError",
    }
)
"""What runs may say while things die around them. Nothing here gives grounds for data lost, a wrong definition, or
members in the group; and an error that isn't the engine's own never has any. A process that librdkafka aborts by the
fault that is known of it (its issue 4605, whose mending, 5397, is in no release) has died like one that is killed."""


@dataclass
class Tally:
    """Kills by kind, runs, committed batches, errors by class, and what must never happen, in words."""

    kills: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    batches: set[str] = field(default_factory=set)
    unexpected: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def killed(self, kind: str) -> None:
        """Something of this kind was killed, or stopped for a while."""
        with self._lock:
            self.kills[kind] += 1

    def began(self) -> None:
        """A run began."""
        with self._lock:
            self.runs += 1

    def committed(self, batch_id: str) -> None:
        """A run said that this batch is committed; several may say so of one."""
        with self._lock:
            self.batches.add(batch_id)

    def failed(self, error: str, message: str, *, is_ours: bool = True, grounds: Collection[str] = ()) -> None:
        """A task ended with this class of error; one that mustn't be is kept with its message.

        `grounds` are those that this run may end with beside the expected ones.
        """
        with self._lock:
            self.errors[error] += 1
            if not is_ours or not (error in EXPECTED or error in grounds):
                self.unexpected.append(f"{error}: {message}")
