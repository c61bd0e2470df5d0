"""How many dead letters wait for somebody to redrive them."""

from collections.abc import Sequence

from tidegate.dead_letters.letter import TopicIdentity
from tidegate.dead_letters.listing import marked
from tidegate.dead_letters.ports import DeadLetterTopic, RedriveLedger
from tidegate.dead_letters.superseded import Superseded
from tidegate.model.offsets import Range
from tidegate.model.subscription import TopicNames
from tidegate.ports import Clock, RecordSource

_MOST_READ = 10_000  # offsets
MOST_SECONDS = 5.0
"""How long the letters may be read for it."""


def letters_waiting(topic: str, source: RecordSource, ledger: RedriveLedger, clock: Clock) -> int:
    """The records that a dead-letter topic holds, without those that were redriven; 0 for a missing topic.

    They are read to be counted, since offsets have gaps. Of a topic with more than 10,000, and of what isn't read
    within five seconds, the offsets are counted: at most so many wait. Raises BrokerUnavailableError, LostDataError.
    """
    marks = source.watermarks(source.partitions(TopicNames((topic,))))
    extent = [Range(*at, held.earliest, held.end) for at, held in sorted(marks.items()) if held.earliest < held.end]
    if not extent:
        return 0
    identity = TopicIdentity(topic, source.topic_ids([topic]).get(topic, ""))
    return max(0, _records(extent, source, clock) - ledger.redriven(identity, extent))


def left_out_waiting(topic: DeadLetterTopic, ledger: RedriveLedger, superseded: Superseded) -> int:
    """How many of them a redrive leaves out, of reprocessed batches and of replays; 0 in a topic with more than 10,000.

    Raises as `DeadLetterTopic.read`.
    """
    extent = topic.extent()
    if _offsets(extent) > _MOST_READ:
        return 0
    letters = (letter for letter in topic.read(extent) if letter.replay or superseded.has(letter))
    of_letters = marked(TopicIdentity(topic.name, topic.id()), letters, ledger)
    return sum(mark is None or mark.state != "redriven" for _, mark in of_letters)


def _records(extent: Sequence[Range], source: RecordSource, clock: Clock) -> int:
    offsets = _offsets(extent)
    if offsets > _MOST_READ:
        return offsets
    with source.read(extent, clock.monotonic() + MOST_SECONDS) as reader:
        for _ in reader:
            pass
        return sum(records for _, records in reader.progress()) + _unread(extent, reader.progress())


def _offsets(extent: Sequence[Range]) -> int:
    return sum(held.end - held.start for held in extent)


def _unread(extent: Sequence[Range], progress: Sequence[tuple[Range, int]]) -> int:
    return sum(held.end - reached.end for held, (reached, _) in zip(extent, progress, strict=True))
