"""What a failure strategy asks of a definition: where failed records may go, and whether a person is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal

FailureStrategy = Literal["fail", "ignore", "dead-letter-queue", "delayed-retry-topic", "ask"]
"""The strategies that are built in; a definition may name one of its own."""


class DeadLetterUse(Enum):
    """Whether dead letters are written."""

    ALWAYS = auto()
    """To the topic that is named, else to the default one."""
    WHEN_ASKED = auto()
    """As ALWAYS, once a person says so: the default topic may be missing until then."""
    WHEN_NAMED = auto()
    """Only if `dead-letter-queue.topic` names a topic."""
    NEVER = auto()


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What is known of a failure strategy by its name, before it is asked about any record."""

    dead_letters: DeadLetterUse = DeadLetterUse.WHEN_NAMED
    uses_retry_topics: bool = False
    asks: bool = False

    @property
    def produces(self) -> bool:
        """Whether it writes records to topics without being asked, whatever the definition names."""
        return self.uses_retry_topics or self.dead_letters is DeadLetterUse.ALWAYS


FAILURE_POLICIES: Final[Mapping[str, FailurePolicy]] = {
    "fail": FailurePolicy(),
    "ignore": FailurePolicy(DeadLetterUse.NEVER),
    "dead-letter-queue": FailurePolicy(DeadLetterUse.ALWAYS),
    "delayed-retry-topic": FailurePolicy(uses_retry_topics=True),
    "ask": FailurePolicy(DeadLetterUse.WHEN_ASKED, asks=True),
}

_OWN = FailurePolicy()


def failure_policy(strategy: str) -> FailurePolicy:
    """The policy of a strategy that is built in, or of somebody's own, which writes dead letters to a named topic."""
    return FAILURE_POLICIES.get(strategy, _OWN)
