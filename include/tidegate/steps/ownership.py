"""Whose a group is: one subscription's, in one cluster, with its positions in one store, and so are its batches."""

import logging
from collections.abc import Collection, Iterable, Mapping

from tidegate.model.batch import Batch, Outcome
from tidegate.model.commit_policy import CommitPoint, PositionStore
from tidegate.model.errors import OvertakenError, StaleError, WrongDefinitionError, location, message
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription
from tidegate.ports import Definitions, GroupHolder, Ledger, LedgerSnapshot
from tidegate.steps.context import Context

log = logging.getLogger(__name__)


def own_batch(subscription: Subscription, batch_id: str, ledger: Ledger) -> Batch:
    """The batch, if it is this subscription's.

    Raises StaleError for another subscription's, WrongDefinitionError for an open one of a group that the definition
    doesn't name any more.
    """
    batch = ledger.batch(batch_id)
    if batch.subscription != subscription.name:
        raise StaleError(
            message(
                f"batch {batch_id} is subscription {batch.subscription}'s (group {batch.group}): nothing was changed",
                f"a run of subscription {subscription.name}",
                f"trigger a run of {batch.subscription} for it",
            )
        )
    refuse_other_group(batch, subscription)
    return batch


def refuse_other_group(batch: Batch, subscription: Subscription) -> None:
    """Raises WrongDefinitionError for an open batch of a group that the definition doesn't name any more."""
    group = subscription.consumer.group_id
    if batch.is_open and batch.group != group:
        raise WrongDefinitionError(
            message(
                f"a batch of group {batch.group} is open ({batch.condition}), and the definition says group.id: "
                f"{group} now: nothing was changed",
                batch,
                f"set consumer.group.id back to {batch.group} until that batch is committed, or give the new group a "
                "definition of its own",
            )
        )


def refuse_other_store(batch: Batch, subscription: Subscription) -> None:
    """Raises WrongDefinitionError for an open batch whose positions the definition would now keep elsewhere.

    It was planned from the one store and can't be committed to the other.
    """
    if why := open_in_other_store(batch, subscription):
        raise WrongDefinitionError(message(why, batch, how_to_finish(batch)))


def open_in_other_store(batch: Batch, subscription: Subscription) -> str | None:
    """That the positions of an open batch are in another store than the definition's, in words; None if they aren't."""
    planned, now = batch.commit_policy.store, subscription.commit_policy.store
    if not batch.is_open or planned is now:
        return None
    return (
        f"the open batch was planned with commit-strategy: {batch.commit_strategy}, whose positions {planned} keeps, "
        f"and the definition says {subscription.commit_strategy} now ({now})"
    )


def needed_to_end(batch: Batch, subscription: Subscription) -> str:
    """What the definition is to say for an open batch to end, and doesn't, in words; empty for nothing."""
    needed = []
    if batch.group != subscription.consumer.group_id:
        needed.append(f"consumer.group.id: {batch.group}")
    if open_in_other_store(batch, subscription):
        needed.append(f"commit-strategy: {batch.commit_strategy}")
    return " and ".join(needed)


def how_to_finish(batch: Batch) -> str:
    """What to do with an open batch whose positions the definition would now keep elsewhere."""
    return (
        f"set {batch.commit_strategy} again until that batch is done: {_how_to_commit(batch)}, or, where it stopped, "
        f"give it up in Airflow or by `tidegate clear {batch.subscription} --answer skip` and run once more; then "
        "change the strategy"
    )


def _how_to_commit(batch: Batch) -> str:
    commits = f"`tidegate commit {batch.subscription}` commits it"
    if batch.awaits_commit_by_hand:
        return commits
    return f"run it, then {commits}" if batch.commit_policy.commit_at is CommitPoint.MANUAL else "run it to its commit"


def other_cluster(subscription: Subscription, now: str | None, snapshot: LedgerSnapshot) -> str | None:
    """That the cluster is another one than the group's positions belong to, in words; None if it isn't known to be."""
    noted = snapshot.clusters.get(subscription.consumer.group_id)
    if not noted or not now or noted == now:
        return None
    return (
        f"connection {subscription.connection} leads to another Kafka cluster, {now}, and the group was read from "
        f"cluster {noted}"
    )


def refuse_other_cluster(subscription: Subscription, now: str | None, snapshot: LedgerSnapshot) -> None:
    """Raises WrongDefinitionError if the cluster is another one than the group's positions belong to."""
    if other := other_cluster(subscription, now, snapshot):
        raise WrongDefinitionError(
            message(
                f"{other}: nothing was read or changed",
                subscription.place,
                "point the connection back, or, if the group is to go on here, run `tidegate offsets accept-cluster "
                f"{subscription.name}`, which says what that means",
            )
        )


def claim_group(ctx: Context, snapshot: LedgerSnapshot) -> bool:
    """Make the group this subscription's, if it isn't another's; whether that changed anything.

    A group whose holder's definition is gone was renamed: its batches and positions go over to this subscription.
    Raises WrongDefinitionError, naming the holder, while that one's definition is still there, or for another cluster,
    and OvertakenError where it is this subscription's own that is gone.
    """
    name, group, cluster = ctx.subscription.name, ctx.subscription.consumer.group_id, ctx.source.cluster_id()
    refuse_other_cluster(ctx.subscription, cluster, snapshot)
    if group in snapshot.clusters and (cluster is None or snapshot.clusters[group] == cluster):
        return False
    holder = ctx.ledger.claim_group(name, group, cluster)
    if holder is None:
        return True
    _refuse_in_use(ctx.subscription, holder, ctx.definitions)
    ctx.ledger.take_over_group(name, group, holder.subscription)
    log.warning(
        "group %s was subscription %s's, whose definition is gone: %s goes on with its batches and positions",
        group,
        holder.subscription,
        name,
    )
    return True


def other_holder(ctx: Context, now: str | None, snapshot: LedgerSnapshot) -> str | None:
    """The subscription whose group this one would take over by `claim_group`; None if it takes over none.

    `now` is the cluster's id. Raises as `claim_group` does where the holder's definition is still there.
    """
    group = ctx.subscription.consumer.group_id
    if group in snapshot.clusters:
        return None
    for name in sorted(ctx.ledger.group_holders(group) - {ctx.subscription.name}):
        theirs = ctx.ledger.look(name)
        cluster = theirs.clusters.get(group)
        if now is None or cluster in (None, now):
            is_open = theirs.open is not None and theirs.open.group == group
            _refuse_in_use(ctx.subscription, GroupHolder(name, cluster, is_open), ctx.definitions)
            return name
    return None


def going_over(holder: str, brought: Batch | None) -> str:
    """That the group goes over from this subscription by the next run, with the batch that is open there, if any."""
    along = "" if brought is None else f", and with it its open batch {brought.id}, which is {brought.condition}"
    return f"the group goes over from subscription {holder}, whose definition is gone{along}"


def _refuse_in_use(subscription: Subscription, holder: GroupHolder, definitions: Definitions) -> None:
    """Raises WrongDefinitionError while the holder's definition is there, OvertakenError if only this one's is gone."""
    name, group = subscription.name, subscription.consumer.group_id
    if not _is_in_use(holder, group, definitions):
        return
    if definitions.group_of(name) is None:
        raise OvertakenError(
            message(
                f"definition {name} is gone, and {holder.subscription} has its group {group}: this run began "
                "before that, and nothing is left for it to do"
            )
        )
    raise WrongDefinitionError(
        message(
            f"group {group} is subscription {holder.subscription}'s, whose definition is still there: nothing was "
            "read or changed",
            location(subscription=name),
            f"give {name} a consumer.group.id of its own; or, if it takes {holder.subscription}'s place, remove "
            f"the definition {holder.subscription}, and {name} goes on where that one stands",
        )
    )


def accept_cluster(ctx: Context, by: str) -> Batch | None:
    """Let the group go on in the cluster that the connection leads to now; the batch that was abandoned for it.

    What was committed in the other cluster means nothing here: the group goes on where this cluster has it, else it
    starts as on first contact. An open batch can't be committed any more and is abandoned, unless its offsets are
    committed already. Raises StaleError if there is nothing to accept.
    """
    name, group, now = ctx.subscription.name, ctx.subscription.consumer.group_id, ctx.source.cluster_id()
    snapshot = ctx.ledger.look(name)
    noted = snapshot.clusters.get(group)
    if now is None or noted is None or noted == now:
        raise StaleError(message(_nothing_to_accept(now, noted), ctx.place))
    abandoned = None
    if snapshot.open is not None and not snapshot.open.offsets_committed:
        reason = f"it was read from cluster {noted}, and {by} accepted cluster {now} in its place"
        ctx.lake.set_aside(snapshot.open.output, snapshot.open.next_receipt)
        abandoned = ctx.ledger.close(snapshot.open.id, Outcome.ABANDONED, reason)
    ctx.ledger.accept_cluster(name, group, now, by)
    log.warning("the group goes on in cluster %s, as %s decided (%s)", now, by, ctx.place)
    return abandoned


def other_store(subscription: Subscription, snapshot: LedgerSnapshot) -> str | None:
    """That the group's positions are in another store than the definition's, in words; None if they aren't."""
    store, noted = subscription.commit_policy.store, snapshot.stores.get(subscription.consumer.group_id)
    if PositionStore.NONE in (store, noted) or noted in (None, store):
        return None
    strategy = subscription.commit_strategy
    return f"{noted} has the group's positions, and commit-strategy: {strategy} keeps them in {store}"


def of_another_ledger(
    subscription: Subscription, receipts: Iterable[Receipt | None], last_ends: Mapping[TopicPartition, int]
) -> str | None:
    """That another ledger has the batches that were committed under these receipts; None where this one has them."""
    if last_ends or not any(receipt is not None and receipt.batch_id for receipt in receipts):
        return None
    return f"this ledger knows of no batch of group {subscription.consumer.group_id}, for which Tidegate has committed"


def claim_store(ctx: Context, snapshot: LedgerSnapshot, partitions: Collection[TopicPartition]) -> bool:
    """Note the definition's store as that of the group, if no other one has positions of it; whether that was new.

    Raises WrongDefinitionError where the store that the definition doesn't name has them: only a person moves positions
    from store to store.
    """
    if not is_unclaimed_store(ctx, snapshot, partitions):
        return False
    group, store = ctx.subscription.consumer.group_id, ctx.subscription.commit_policy.store
    ctx.ledger.note_store(ctx.subscription.name, group, store, snapshot.version)
    return True


def is_unclaimed_store(ctx: Context, snapshot: LedgerSnapshot, partitions: Collection[TopicPartition]) -> bool:
    """Whether the definition's store is to be noted yet as that of the group. Raises as `claim_store` does."""
    subscription = ctx.subscription
    group, store = subscription.consumer.group_id, subscription.commit_policy.store
    noted = snapshot.stores.get(group)
    if store in (PositionStore.NONE, noted):
        return False
    if noted is not None and ctx.ledger.last_ends(subscription.name, group):
        raise _positions_elsewhere(subscription, str(other_store(subscription, snapshot)))
    if noted is None and ctx.elsewhere is not None and ctx.elsewhere.committed(partitions):
        other = PositionStore.LEDGER if store is PositionStore.KAFKA else PositionStore.KAFKA
        why = f"{other} has positions of the group, and commit-strategy: {subscription.commit_strategy} keeps them in "
        raise _positions_elsewhere(subscription, f"{why}{store}")
    return True


def _positions_elsewhere(subscription: Subscription, why: str) -> WrongDefinitionError:
    return WrongDefinitionError(
        message(
            f"{why}: nothing was read or changed",
            subscription.place,
            how_to_move(subscription.name),
        )
    )


def how_to_move(subscription: str) -> str:
    """What to do where another store has the group's positions than the one that the definition names."""
    return f"run `tidegate offsets move {subscription}`, which takes them there, or set the strategy back"


def _nothing_to_accept(now: str | None, noted: str | None) -> str:
    if noted is None:
        return "the group was never read from any cluster: there is nothing to accept, its first run may begin"
    if now is None:
        return f"the group is of cluster {noted}, and the connection's doesn't tell its id: there is nothing to accept"
    return f"the group is of cluster {now}, to which the connection leads: there is nothing to accept"


def _is_in_use(holder: GroupHolder, group: str, definitions: Definitions) -> bool:
    """Whether the holder's definition still has the group, or an open batch to finish in it."""
    defined = definitions.group_of(holder.subscription)
    return defined is not None and (defined.group in (group, None) or holder.has_open_batch)
