"""Freeze: what a batch takes of each partition, decided once."""

from collections.abc import Mapping

from tidegate.model.batch import Batch
from tidegate.model.offsets import Range, TopicPartition, assign, split_cap
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed


def freeze(
    subscription: Subscription,
    output: str,
    receipt: Receipt,
    committed: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, int],
) -> Batch:
    """The batch that begins where the group stands, and takes as much as `consumer.max.poll.records` lets it."""
    lags = {tp: ends[tp] - position.offset for tp, position in committed.items()}
    shares = split_cap(subscription.consumer.max_poll_records, lags, turn=receipt.number)
    ranges = tuple(
        Range(
            tp.topic,
            tp.partition,
            start.offset,
            start.offset + shares.get(tp, 0),
            start_epoch=start.leader_epoch,
            end_epoch=start.leader_epoch,
        )
        for tp, start in sorted(committed.items())
    )
    return batch_of(subscription, output, receipt, ranges)


def batch_of(
    subscription: Subscription, output: str, receipt: Receipt, ranges: tuple[Range, ...], batch_id: str | None = None
) -> Batch:
    """The batch of these ranges that is planned while this receipt is in force, shared out among the members.

    One that is published already has its id.
    """
    group = subscription.consumer.group_id
    return Batch(
        id=batch_id or receipt.batch_after(group),
        subscription=subscription.name,
        group=group,
        receipt=receipt,
        ranges=ranges,
        shares=assign([r.at for r in ranges], subscription.members),
        output=output,
        partition_by=subscription.processing.partition_by,
        commit_strategy=subscription.commit_strategy,
    )
