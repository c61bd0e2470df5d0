"""The topics that dead letters may be redriven to.

A letter's headers say where it came from, and whoever may write to the dead-letter topic writes headers. So they choose
among what the subscription reads, and what the person who redrives has named.
"""

from dataclasses import dataclass

from tidegate.model.subscription import INTERNAL_TOPICS, TopicSelection

_NEVER = INTERNAL_TOPICS | {"__cluster_metadata", "__remote_log_metadata"}  # which no broker tells of


@dataclass(frozen=True, slots=True)
class Targets:
    """The topics that a subscription reads, and others that are `allowed`."""

    reads: TopicSelection
    allowed: frozenset[str] = frozenset()

    def takes(self, topic: str) -> bool:
        """Whether a letter that says it came from this topic may go there."""
        return topic in self.allowed or self.reads.takes(topic)


def is_kafkas_own(topic: str) -> bool:
    """Whether Kafka keeps the topic for itself: no letter goes there, whoever asks for it."""
    return topic in _NEVER
