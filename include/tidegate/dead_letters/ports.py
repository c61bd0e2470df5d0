"""What redriving needs of the world: each port has a real adapter and an in-memory double in `testing.redriving`."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from tidegate.dead_letters.letter import DeadLetter, Intent, RedriveStatus, Settled, TopicIdentity
from tidegate.model.offsets import Range


class DeadLetterTopic(Protocol):
    """The topic that dead letters lie in. A broker that can't be reached raises BrokerUnavailableError."""

    @property
    def name(self) -> str:
        """The topic's name."""
        ...

    def id(self) -> str:
        """The id that the cluster gave it; empty where there is none."""
        ...

    def extent(self) -> tuple[Range, ...]:
        """What each of its partitions holds now, in order; nothing for a missing topic, which is never created."""
        ...

    def read(self, extent: Sequence[Range]) -> Iterator[DeadLetter]:
        """The letters of these ranges, one partition after the other, by offset; a part at a time."""
        ...

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has; 0 for a missing one."""
        ...


class RedriveLedger(Protocol):
    """What is noted of redrives; every method is one transaction. UnavailableError where it can't be reached."""

    def take_turn(self, topic: str) -> int:
        """Count a turn of this dead-letter topic; who holds an earlier one can neither settle nor note any more."""
        ...

    def check_turn(self, topic: str, turn: int) -> None:
        """Raises StaleError if somebody has taken a newer turn."""
        ...

    def settle(self, identity: TopicIdentity, turn: int, last_token: str | None) -> Settled:
        """Decide what became of every chunk of this topic, of whatever id, that isn't marked. Raises StaleError."""
        ...

    def note(self, identity: TopicIdentity, turn: int, intent: Intent) -> None:
        """Note a chunk before it is produced. Raises StaleError."""
        ...

    def mark(self, token: str) -> None:
        """Note that the chunk of this token was redriven."""
        ...

    def marks(self, identity: TopicIdentity, partition: int, offsets: Collection[int]) -> dict[int, RedriveStatus]:
        """What is known of these letters, by offset: the newest that was redriven, else unknown, else begun."""
        ...

    def redriven(self, identity: TopicIdentity, extent: Sequence[Range]) -> int:
        """How many letters of these ranges were redriven."""
        ...
