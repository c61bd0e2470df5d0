"""Positions whose records are gone: expired, out of range, or of a topic that was deleted and created again."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidegate.model.batch import Batch
from tidegate.model.errors import LostDataError, StaleError, first_few, location, message
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, Ledger, Loss, RecordSource

log = logging.getLogger(__name__)

T = TypeVar("T")
_LONGEST = 200  # characters of the partitions in a command


@dataclass(frozen=True, slots=True)
class Lost:
    """A lost position, what happened to its records, and whether that holds for its whole topic."""

    loss: Loss
    why: str
    is_of_topic: bool = False

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.loss.topic, self.loss.partition)

    def __str__(self) -> str:
        """`it is outside of what the partition holds, [100, 120) (topic flights, partition 0, offset 5)`."""
        at = location(topic=self.loss.topic, partition=self.loss.partition, offset=self.loss.position)
        return message(self.why, at)


def lost_positions(
    positions: Mapping[TopicPartition, Committed],
    marks: Mapping[TopicPartition, Watermarks],
    topics: Mapping[str, str],
) -> list[Lost]:
    """Which of these positions are lost, in order of partition.

    `marks` is what each partition holds; `topics` are those whose positions mean nothing any more, and why.
    """
    lost = []
    for tp, position in sorted(positions.items()):
        held = marks.get(tp, Watermarks(0, 0))
        loss = Loss(tp.topic, tp.partition, position.offset, held.earliest, held.end)
        if tp.topic in topics:
            why = f"the topic {topics[tp.topic]}; it holds {held}"
            lost.append(Lost(loss, why, is_of_topic=True))
        elif not held.holds(position.offset):
            why = f"the committed position is outside of what the partition holds, {held}"
            lost.append(Lost(loss, why))
    return lost


def partitions_of_lost(lost: Iterable[Lost]) -> tuple[str, ...]:
    """The partitions of these as a command takes them, one text a topic: `orders:0,2`, or `orders` for all of it."""
    numbers: dict[str, list[str]] = {}
    whole = set()
    for each in sorted(lost, key=lambda each: each.at):
        numbers.setdefault(each.at.topic, []).append(str(each.at.partition))
        if each.is_of_topic:
            whole.add(each.at.topic)
    return tuple(topic if topic in whole else f"{topic}:{','.join(each)}" for topic, each in numbers.items())


def reset_command(subscription: str, partitions: Sequence[str], *, abandon: bool) -> str:
    """The command by which a group goes on at the earliest record of these, see `partitions_of_lost`, and of no others.

    With `abandon` for a batch that waits for what is lost.
    """
    named = "".join(f" --partitions {each}" for each in partitions)
    if not 0 < len(named) <= _LONGEST:
        named = " --partitions TOPIC:NUMBERS"
    return f"`tidegate group reset {subscription} --to earliest{named}{' --abandon' if abandon else ''}`"


@dataclass(frozen=True, slots=True)
class OlderTopics:
    """Topics of which positions are known that belong to an older topic of the same name.

    `topics` says why, by topic; `lost` are the positions that nobody has given up yet, and `given_up` those that a plan
    gave up when it found the topic missing.
    """

    topics: Mapping[str, str]
    lost: Mapping[TopicPartition, Committed]
    given_up: Mapping[TopicPartition, Committed]
    _foreign: frozenset[TopicPartition]

    def without(self, positions: Mapping[TopicPartition, T]) -> dict[TopicPartition, T]:
        """These positions without those that belong to an older topic."""
        return {tp: p for tp, p in positions.items() if tp.topic not in self.topics or tp in self._foreign}


def older_topics(
    committed: Mapping[TopicPartition, Committed],
    last_ends: Mapping[TopicPartition, int],
    *,
    now: Mapping[str, str],
    noted: Mapping[str, str],
    missing: Collection[str],
) -> OlderTopics:
    """Which topics were created again since their positions were committed.

    Their ids tell: those that the cluster gives `now`, and those that were `noted` with the positions. Where either is
    unknown, a topic that was `missing` in between was created again, unless the group still has its offsets: a broker
    drops them with the topic. What somebody else has committed since, without a receipt of ours, is of the new topic.
    A topic that a plan found missing has nothing left to lose: that plan said so, and where it would go on.
    """
    topics = recreated(now, noted)
    kept = {tp.topic for tp in committed}
    for topic in {tp.topic for tp in last_ends} & set(missing) - kept:
        if topic not in now or topic not in noted:
            topics[topic] = "was missing in between"
    foreign = frozenset(tp for tp, position in committed.items() if position.is_foreign)
    positions = {tp: Committed(offset) for tp, offset in last_ends.items()} | dict(committed)
    older = {tp: position for tp, position in positions.items() if tp.topic in topics and tp not in foreign}
    given_up = {tp: position for tp, position in older.items() if tp.topic in missing}
    lost = {tp: position for tp, position in older.items() if tp not in given_up}
    return OlderTopics(topics, lost, given_up, foreign)


def recreated(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The topics that have another id than before, in words."""
    return {
        topic: f"was deleted and created again (its id was {before[topic]} and is {topic_id})"
        for topic, topic_id in now.items()
        if before.get(topic, topic_id) != topic_id
    }


def created_again(
    batch: Batch, positions: Mapping[TopicPartition, Committed], source: RecordSource, ledger: Ledger
) -> frozenset[str]:
    """The topics of a batch that were created again since it was planned, where its ends mean nothing.

    A broker drops the group's positions with a topic, so it is asked only where one of these is gone. Raises StaleError
    if the ledger, which knows the ids of an open batch's topics, has lost the batch or another run has closed it.
    """
    vanished = {r.topic for r in batch.ranges if r.at not in positions}
    if not vanished:
        return frozenset()
    now = source.topic_ids(vanished)
    snapshot = ledger.look(ledger.batch(batch.id).subscription)
    if snapshot.open is None or snapshot.open.id != batch.id:
        raise StaleError(message("another run has closed the batch meanwhile", batch, "the next run finds out"))
    again = recreated(now, snapshot.topic_ids)
    for topic, why in again.items():
        fact = f"topic {topic} {why}: no position of the batch is committed in it"
        log.warning("%s", message(fact, batch, "the next run decides by on-data-loss where to begin"))
    return frozenset(again)


def refuse_outside(
    subscription: Subscription, offsets: Mapping[TopicPartition, int], marks: Mapping[TopicPartition, Watermarks]
) -> None:
    """Raises LostDataError for cursors' offsets that their partitions don't hold, unless `on-data-loss: reset`."""
    outside = [
        message(
            f"a start is outside of what the partition holds, {marks[tp]}",
            location(topic=tp.topic, partition=tp.partition, offset=offset),
        )
        for tp, offset in sorted(offsets.items())
        if not marks[tp].holds(offset)
    ]
    if outside and subscription.on_data_loss == "fail":
        raise LostDataError(
            message(
                first_few(outside),
                subscription.place,
                "correct assign-seek or cursor, or set on-data-loss: reset to start at the earliest record of each of "
                "these partitions",
            )
        )
