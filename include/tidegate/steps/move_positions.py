"""Move: take a group's positions from the store that has them to the one of the definition."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.commit_policy import PositionStore
from tidegate.model.counting import counted
from tidegate.model.errors import StaleError, WrongDefinitionError, message
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Committed
from tidegate.steps.context import Context
from tidegate.steps.ownership import claim_group, refuse_other_store
from tidegate.steps.selection import visible_partitions

log = logging.getLogger(__name__)

_UNSEEN = "that were read meanwhile aren't in the transform's state, which goes on from what it was in that store"


@dataclass(frozen=True, slots=True)
class MovedPositions:
    """What was taken to which store."""

    positions: Mapping[TopicPartition, int]
    store: PositionStore


def move_positions(ctx: Context, by: str) -> MovedPositions:
    """Copy the group's positions, with their receipts, from `elsewhere` to `offsets`, and have the ledger note that.

    The ledger notes it last, so that whoever is interrupted can do it again. Raises WrongDefinitionError where a batch
    is open that was planned from the other store, and for a strategy without positions; StaleError where nothing is to
    be moved.
    """
    subscription, ledger, at = ctx.subscription, ctx.ledger, ctx.place
    name, group, store = subscription.name, subscription.consumer.group_id, subscription.commit_policy.store
    claim_group(ctx, ledger.look(name))
    snapshot = ledger.look(name)
    if ctx.elsewhere is None:
        why = f"commit-strategy: {subscription.commit_strategy} keeps no positions: there is nothing to move"
        raise WrongDefinitionError(message(why, at, "set the strategy that the group is to go on with first"))
    if snapshot.stores.get(group) is store:
        raise StaleError(message(f"the group's positions are in {store} already: there is nothing to move", at))
    if snapshot.open is not None:
        refuse_other_store(snapshot.open, subscription)
    partitions = visible_partitions(subscription, ctx.source)
    with ctx.elsewhere.fence() as there, ctx.offsets.fence() as here:
        positions, before = there.committed(partitions), here.committed(partitions)
        for metadata, of_receipt in _by_receipt(positions).items():
            epochs = {tp: p.leader_epoch for tp, p in of_receipt.items() if p.leader_epoch is not None}
            here.commit({tp: position.offset for tp, position in of_receipt.items()}, metadata, epochs)
        ledger.note_store(name, group, store, snapshot.version, by)
    moved = {tp: position.offset for tp, position in positions.items()}
    said = ", ".join(f"{tp} at {offset}" for tp, offset in sorted(moved.items())) or "there were none yet"
    log.warning("the group's positions are in %s now, as %s decided: %s (%s)", store, by, said, at)
    unseen = sum(offset - before[tp].offset for tp, offset in moved.items() if tp in before)
    if unseen > 0 and ctx.offsets.state() is not None:
        log.warning("%s", message(f"{counted(unseen, 'offset')} {_UNSEEN}", at))
    return MovedPositions(moved, store)


def _by_receipt(
    positions: Mapping[TopicPartition, Committed],
) -> Mapping[str, Mapping[TopicPartition, Committed]]:
    """The positions by what was committed with each: a commit writes one text on all of its own."""
    found: defaultdict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
    for tp, position in positions.items():
        found[position.metadata][tp] = position
    return found
