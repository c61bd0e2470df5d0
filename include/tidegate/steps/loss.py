"""Positions whose records are gone: expired, out of range, or of a topic that was deleted and created again."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import LostDataError, place
from tidegate.ports import Committed, Loss
from tidegate.positions import TopicPartition, Watermarks
from tidegate.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Lost:
    """A lost position, and what happened to its records."""

    loss: Loss
    why: str

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.loss.topic, self.loss.partition)

    def __str__(self) -> str:
        """`topic flights, partition 0, offset 5: it is outside of what the partition holds, [100, 120)`."""
        return f"{place(topic=self.loss.topic, partition=self.loss.partition, offset=self.loss.position)}: {self.why}"


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
            lost.append(Lost(loss, f"the topic {topics[tp.topic]}; it holds [{held.earliest}, {held.end})"))
        elif not held.earliest <= position.offset <= held.end:
            why = f"the committed position is outside of what the partition holds, [{held.earliest}, {held.end})"
            lost.append(Lost(loss, why))
    return lost


def recreated(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The topics that have another id than before, in words."""
    return {
        topic: f"was deleted and created again (its id was {before[topic]} and is {topic_id})"
        for topic, topic_id in now.items()
        if before.get(topic, topic_id) != topic_id
    }


def refuse_outside(
    subscription: Subscription, offsets: Mapping[TopicPartition, int], marks: Mapping[TopicPartition, Watermarks]
) -> None:
    """Raises LostDataError for cursors' offsets that their partitions don't hold, unless `on-data-loss: reset`."""
    outside = [
        f"{place(topic=tp.topic, partition=tp.partition, offset=offset)}: it is to start outside of what it holds, "
        f"[{marks[tp].earliest}, {marks[tp].end})"
        for tp, offset in sorted(offsets.items())
        if not marks[tp].earliest <= offset <= marks[tp].end
    ]
    if outside and subscription.on_data_loss == "fail":
        where = place(subscription=subscription.name, group=subscription.consumer.group_id)
        raise LostDataError(
            f"{where}: {'; '.join(outside)}: correct assign-seek or cursor, or set on-data-loss: reset to start at the "
            "earliest record of each of these partitions"
        )
