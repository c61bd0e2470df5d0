"""What is shown only when somebody asks for it, because Kafka must be asked: dead letters, and who is in a group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.config.settings import Settings
from tidegate.dead_letters.letter import DeadLetter, DeadLetterFilter
from tidegate.dead_letters.listing import Found, Listing
from tidegate.dead_letters.ports import DeadLetterTopic
from tidegate.model.offsets import Range
from tidegate.monitoring.group_description import GroupDescription, describe_group
from tidegate.operations.dead_letters import open_dead_letters
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.pipeline import open_pipeline
from tidegate_airflow.connections import DatabaseConnections

NEWEST = 10_000
"""So many offsets at the end of each partition of a dead-letter topic are looked at."""
_LETTERS = 20  # shown


@dataclass(frozen=True, slots=True)
class _NewestLetters:
    """The port `DeadLetterTopic`, but for all that is older."""

    topic: DeadLetterTopic

    @property
    def name(self) -> str:
        return self.topic.name

    def id(self) -> str:
        return self.topic.id()

    def extent(self) -> tuple[Range, ...]:
        return tuple(replace(each, start=max(each.start, each.end - NEWEST)) for each in self.topic.extent())

    def read(self, extent: Sequence[Range]) -> Iterator[DeadLetter]:
        return self.topic.read(extent)

    def partitions_of(self, topic: str) -> int:
        return self.topic.partitions_of(topic)


def dead_letters(name: str, settings: Settings) -> Listing:
    """The newest dead letters of a subscription by reason, and the first of them."""
    with open_dead_letters(AllDefinitions(settings).load(name), settings, DatabaseConnections()) as opened:
        return replace(opened, topic=_NewestLetters(opened.topic)).list(DeadLetterFilter(), _LETTERS)


def dead_letter(name: str, settings: Settings, partition: int, offset: int) -> Found | None:
    """One dead letter; None if there is none at this place."""
    with open_dead_letters(AllDefinitions(settings).load(name), settings, DatabaseConnections()) as opened:
        try:
            return opened.find(partition, offset)
        except LookupError:
            return None


def group(name: str, settings: Settings) -> GroupDescription:
    """Who is in the group now, and where it stands."""
    with open_pipeline(AllDefinitions(settings).load(name), settings, DatabaseConnections()) as pipeline:
        return describe_group(pipeline)
