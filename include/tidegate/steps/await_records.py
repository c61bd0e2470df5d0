"""Await records: ask little, over connections that are open, until there is more than a plan has seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidegate.model.offsets import TopicPartition
from tidegate.steps.availability import Availability
from tidegate.steps.context import Context
from tidegate.steps.decide import has_records
from tidegate.steps.loss import lost_positions
from tidegate.steps.observe import ObservedGroup
from tidegate.steps.selection import partitions_of, readable_ends

_POLL_SECONDS = 0.5
_POLLS_BETWEEN_TOPICS = 4  # new topics and partitions, and whether there is to be an end, are asked every two seconds


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a plan waits for, where somebody else is to wait: more than there is to read up to `positions`.

    They are the group's in the partitions that there were, None where it has none. The wait ends at `deadline`, by the
    ledger's clock.
    """

    positions: Mapping[TopicPartition, int | None]
    deadline: datetime


def await_records(ctx: Context, seen: ObservedGroup, deadline: float, availability: Availability) -> bool:
    """Whether there was anything to plan anew for before the deadline, by the clock's monotonic time.

    That is a record to read, a position that was lost, a partition that wasn't there, or a definition that was
    unsubscribed. The ledger isn't asked for batches: what somebody else has done meanwhile is found by the look that
    follows. Raises BrokerUnavailableError.
    """
    polls = 0
    while (left := deadline - ctx.clock.monotonic()) > 0:
        ctx.clock.wait(min(_POLL_SECONDS, left))
        polls += 1
        with availability.noted():
            if _has_news(ctx, seen, of_topics=polls % _POLLS_BETWEEN_TOPICS == 0):
                return True
    return False


def _has_news(ctx: Context, seen: ObservedGroup, *, of_topics: bool) -> bool:
    if of_topics and ctx.definitions.is_draining(ctx.subscription.name):
        return True
    if (of_topics or not seen.partitions) and partitions_of(ctx.subscription, ctx.source) != seen.partitions:
        return True
    marks = ctx.source.watermarks(seen.partitions)
    ends = readable_ends(ctx.subscription, ctx.source, seen.committed, marks, ctx.ledger.now)
    return has_records(seen.committed, ends) or bool(lost_positions(seen.committed, marks, {}))
