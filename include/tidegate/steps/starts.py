"""Where the next plan begins in each partition, and how far a subscription has come, as far as is known before it."""

from collections.abc import Collection, Mapping, Sequence

from tidegate.model.errors import LostDataError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, LedgerSnapshot, RecordSource
from tidegate.steps.anchor import ObservedOffsets, anchorage, offsets_of
from tidegate.steps.context import Context
from tidegate.steps.loss import OlderTopics, older_topics
from tidegate.steps.observe import offsets_from_ledger


def starts(
    subscription: Subscription, partitions: Sequence[TopicPartition], known: ObservedOffsets, source: RecordSource
) -> dict[TopicPartition, int]:
    """Where the next plan begins: the committed offset, and without one what it would begin with.

    Nothing for the partitions where it would refuse to begin.
    """
    begins = {tp: position.offset for tp, position in known.committed.items()}
    if all(tp in begins for tp in partitions):
        return begins
    try:
        unanchored = anchorage(subscription, partitions, known).unanchored
        return offsets_of(unanchored, source.watermarks(unanchored), source) | begins
    except LostDataError:
        return begins


def starts_without_position(
    ctx: Context,
    snapshot: LedgerSnapshot,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
) -> dict[TopicPartition, int]:
    """As `starts`, of the partitions in which the group has no position."""
    without = [tp for tp in partitions if tp not in committed]
    if not without:
        return {}
    topic_ids = ctx.source.topic_ids({tp.topic for tp in partitions})
    from_ledger = offsets_from_ledger(ctx.subscription, ctx.offsets, ctx.ledger, snapshot)
    _, known = known_offsets(committed, from_ledger, topic_ids, snapshot)
    begins = starts(ctx.subscription, partitions, known, ctx.source)
    return {tp: begins[tp] for tp in without if tp in begins}


def known_offsets(
    committed: Mapping[TopicPartition, Committed],
    from_ledger: tuple[Mapping[TopicPartition, int], Collection[str]],
    topic_ids: Mapping[str, str],
    snapshot: LedgerSnapshot,
) -> tuple[OlderTopics, ObservedOffsets]:
    """What is of topics that were created again since, and the offsets without it.

    `from_ledger` are the last ends and the missing names, `topic_ids` those that the topics have now.
    """
    last_ends, missing = from_ledger
    older = older_topics(committed, last_ends, now=topic_ids, noted=snapshot.topic_ids, missing=missing)
    return older, ObservedOffsets(older.without(committed), {}, older.without(last_ends), missing, older.topics)


def delivered(ctx: Context, snapshot: LedgerSnapshot) -> dict[TopicPartition, int]:
    """How far the subscription has come in each partition, by whatever group."""
    name, own = ctx.subscription.name, ctx.subscription.consumer.group_id
    ends: dict[TopicPartition, int] = {}
    for group in sorted(snapshot.clusters, key=lambda group: group == own):  # what the own group has counts
        ends |= ctx.ledger.last_ends(name, group)
    return ends
