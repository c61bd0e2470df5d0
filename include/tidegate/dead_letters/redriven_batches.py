"""Batches some of whose records were redriven: they are rows of later batches, or will be."""

from collections import Counter
from collections.abc import Iterable

from tidegate.dead_letters.letter import TopicIdentity
from tidegate.dead_letters.listing import marked
from tidegate.dead_letters.origins import BatchesByOrigin
from tidegate.dead_letters.ports import DeadLetterTopic, RedriveLedger
from tidegate.model.batch import Batch
from tidegate.model.subscription import TopicSelection


def redriven_records(
    batches: Iterable[Batch], reads: TopicSelection, topic: DeadLetterTopic, ledger: RedriveLedger
) -> Counter[str]:
    """How many dead letters of each batch, by its id, were redriven into a topic that its subscription reads.

    Those of which nobody knows whether they were count as well. The whole dead-letter topic is read.
    """
    found: Counter[str] = Counter()
    by_origin = BatchesByOrigin((batch.id, batch.ranges) for batch in batches)
    extent = topic.extent()
    identity = TopicIdentity(topic.name, topic.id() if extent else "")
    letters = (letter for letter in topic.read(extent) if any(by_origin.of(letter.origin)))
    for letter, mark in marked(identity, letters, ledger):
        if mark is not None and reads.takes(mark.to):
            found.update(by_origin.of(letter.origin))
    return found
