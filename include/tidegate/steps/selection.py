"""Selection: the partitions that a subscription reads, and how far each may be read now.

Beside its own topics it reads its retry topics, whose records wait there until they are due.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from tidegate.model.errors import UnauthorizedError, location, message
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.subscription import Subscription, TopicNames, TopicPartitions
from tidegate.ports import Committed, RecordSource, WatchedCluster
from tidegate.strategies.failure.delayed_retry import due_end, not_due_from


def partitions_of(subscription: Subscription, source: RecordSource | WatchedCluster) -> tuple[TopicPartition, ...]:
    """The partitions that exist now, in order."""
    chosen = source.partitions(subscription.topics)
    retried = subscription.retry_topics
    return tuple(sorted({*chosen, *source.partitions(TopicNames(retried))})) if retried else chosen


def visible_partitions(subscription: Subscription, source: RecordSource) -> tuple[TopicPartition, ...]:
    """The partitions that exist now. Raises UnauthorizedError for a topic that is named and that the user may not see.

    Taken for one that isn't there yet, it would be read from its earliest record once it can be seen.
    """
    partitions = partitions_of(subscription, source)
    named = subscription.topics.named | {*subscription.retry_topics}
    absent = named - {tp.topic for tp in partitions}
    if absent and (hidden := source.hidden(absent)):
        fact = f"the user of connection {subscription.connection} may not see topic {', '.join(sorted(hidden))}"
        where = location(subscription=subscription.name)
        raise UnauthorizedError(message(fact, where, "let it describe and read the topic"))
    return partitions


def left_unread(
    delivered: Mapping[TopicPartition, int], partitions: Collection[TopicPartition], source: RecordSource
) -> dict[TopicPartition, int]:
    """How many offsets there are after where a subscription stands in partitions that it doesn't read any more.

    Markers of transactions are among them. Topics that aren't there any more are left out.
    """
    left = {at: offset for at, offset in delivered.items() if at not in partitions}
    topics = tuple(sorted({at.topic for at in left}))
    here = [at for at in source.partitions(TopicNames(topics)) if at in left] if topics else []
    return {at: held.behind(left[at]) for at, held in source.watermarks(here).items()}


def readable_ends(
    subscription: Subscription,
    source: RecordSource | WatchedCluster,
    committed: Mapping[TopicPartition, Committed],
    marks: Mapping[TopicPartition, Watermarks],
    now: Callable[[], datetime],
) -> dict[TopicPartition, int]:
    """As far as each partition may be read: to its end, or that of its selection if it has one.

    In a retry topic to the first record that isn't due yet. `now` is by the clock that gave the retries their
    timestamps: the ledger's.
    """
    last = subscription.topics.ends if isinstance(subscription.topics, TopicPartitions) else {}
    ends = {tp: min(held.end, last.get(tp.topic, {}).get(tp.partition, held.end)) for tp, held in marks.items()}
    for topic in subscription.retry_topics:
        waiting = [tp for tp in marks if tp.topic == topic and tp in committed and ends[tp] > committed[tp].offset]
        if waiting:
            not_due = source.offsets_at(waiting, not_due_from(topic, now()))
            ends |= {tp: due_end(marks[tp], not_due[tp]) for tp in waiting}
    return ends
