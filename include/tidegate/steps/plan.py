"""Plan: find out where things stand, wait for records, and freeze what the batch takes.

Each look is one round of observe, decide and act; whatever it changes, another look follows. Waiting takes no rounds.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from tidegate.model.errors import BrokerUnavailableError, StaleError, TidegateError, WrongDefinitionError, message
from tidegate.steps.absent_output import refuse_absent
from tidegate.steps.act import Changed, Idle, Plan, act, nothing
from tidegate.steps.availability import Availability
from tidegate.steps.await_records import Awaited, await_records
from tidegate.steps.context import Context
from tidegate.steps.decide import GoOn, NothingToRead, OpenBatch, decide
from tidegate.steps.observe import Observation, ObservedGroup, observe_batch, observe_group
from tidegate.steps.ownership import claim_group, claim_store, refuse_other_group, refuse_other_store
from tidegate.steps.produced_topics import refuse_missing_topics
from tidegate.steps.selection import partitions_of, visible_partitions
from tidegate.steps.sweep import sweep
from tidegate.strategies.failure.registry import failure_strategy

_RETRY_SECONDS = 0.25
MOST_CHANGES: Final = 12  # looks that find something to change, of which an undisturbed plan makes a few
_SHORTEST_LEFT_SECONDS = 5.0  # a shorter wait isn't worth what it takes to hand it over and to begin again

T = TypeVar("T")


def plan(ctx: Context) -> Plan:
    """The open batch, if it can go on; else a new one; else nothing, after the poll timeout.

    A broker that can't be reached within the poll timeout is an empty poll, until it has been away for
    `unavailable-after.ms`: then BrokerUnavailableError is raised. Raises WrongDefinitionError for a topic that
    failed records would go to and that isn't there.
    """
    return _plan(ctx, ctx.subscription.poll_timeout_ms / 1000, _stay)


def plan_or_await(ctx: Context, deadline: datetime | None, may_leave: Callable[[], bool]) -> Plan | Awaited:
    """As `plan`, but a wait that is long enough is left to the caller, who plans again when it is over, if it may be.

    `deadline` is that of the wait before, by the ledger's clock; None for the first plan of a run.
    """

    def leave(seen: ObservedGroup, left: float) -> Awaited | None:
        if left < _SHORTEST_LEFT_SECONDS or not may_leave():
            return None
        positions = {tp: seen.committed[tp].offset if tp in seen.committed else None for tp in seen.partitions}
        return Awaited(positions, deadline or ctx.ledger.now() + timedelta(seconds=left))

    whole = ctx.subscription.poll_timeout_ms / 1000
    return _plan(ctx, whole if deadline is None else (deadline - ctx.ledger.now()).total_seconds(), leave)


def _plan(ctx: Context, seconds: float, leave: Callable[[ObservedGroup, float], T | None]) -> Plan | T:
    """Plan, and wait for records for so long; `leave` is asked first whether this is to be done elsewhere."""
    failure_strategy(ctx.subscription)  # one of another package that can't be begun ends the run before it reads
    deadline = ctx.clock.monotonic() + seconds
    availability = Availability(ctx.subscription, ctx.run_log, ctx.clock)
    changes: list[str] = []
    told: list[str] = []
    while len(changes) < MOST_CHANGES:
        try:
            with availability.noted():
                result = _look(ctx)
            if isinstance(result, Idle):
                awaited = None if told else leave(result.seen, deadline - ctx.clock.monotonic())
                if awaited is not None:
                    return awaited
                if not await_records(ctx, result.seen, deadline, availability):
                    sweep(ctx.subscription.name, ctx.output, 1, landing=ctx.landing, lake=ctx.lake, ledger=ctx.ledger)
                    return nothing(ctx, "; ".join((result.why, *told)))
        except BrokerUnavailableError as away:
            if ctx.clock.monotonic() >= deadline:
                availability.refuse_outage(away)
                return nothing(ctx, f"the broker can't be reached ({away}); the next run tries again")
            ctx.clock.wait(_RETRY_SECONDS)
            continue
        match result:
            case Plan():
                return replace(result, why="; ".join((result.why, *told)))
            case Changed(what):
                changes.append(what)
                told += filter(None, [result.told])
    raise _never_settles(ctx, changes)


def _stay(_seen: ObservedGroup, _left: float) -> None:
    """The wait is for this process."""
    return


def _look(ctx: Context) -> Plan | Changed | Idle:
    """One round: what there is, what is to be done about it, and that is done."""
    snapshot = ctx.ledger.look(ctx.subscription.name)
    if claim_group(ctx, snapshot):
        return Changed("the group was claimed")
    seen: Observation
    if snapshot.open is not None:
        refuse_other_group(snapshot.open, ctx.subscription)
        refuse_other_store(snapshot.open, ctx.subscription)
        refuse_absent(ctx, snapshot.open.output, snapshot.open)
        seen = observe_batch(ctx, snapshot, snapshot.open)
    elif ctx.definitions.is_draining(ctx.subscription.name):
        return nothing(ctx, "it was unsubscribed, and no batch of it is open: no new one begins")
    else:
        partitions = visible_partitions(ctx.subscription, ctx.source)
        if claim_store(ctx, snapshot, partitions):
            return Changed("the store of the group's positions was noted")
        refuse_absent(ctx, ctx.output)
        seen = observe_group(ctx, snapshot, partitions)
    action = decide(ctx.subscription, ctx.output, seen)
    if isinstance(action, GoOn | OpenBatch | NothingToRead):  # not before starts are committed, or latest would lose
        refuse_missing_topics(ctx.subscription, ctx.source)
    return act(action, ctx, seen)


def _never_settles(ctx: Context, changes: Sequence[str]) -> TidegateError:
    """Why a plan that changes something each time it looks ends without one."""
    committed = ctx.offsets.committed(partitions_of(ctx.subscription, ctx.source))
    if committed and not any(position.metadata for position in committed.values()):
        return WrongDefinitionError(
            message(
                "the cluster keeps no metadata with the group's offsets, by which Tidegate knows its own commits: "
                "no batch was planned",
                ctx.place,
                "have it keep offset metadata, or set commit-strategy: checkpoint, which keeps positions in the "
                f"ledger, and run `tidegate offsets move {ctx.subscription.name}`",
            )
        )
    counted = Counter(changes).most_common(3)
    said = "; ".join(f"{what} ({'once' if number == 1 else f'{number} times'})" for what, number in counted)
    return StaleError(
        message(
            f"no batch was planned, because something changed at each of {len(changes)} looks: {said}",
            ctx.place,
            "see that no other tool and no second Tidegate moves this group; the next run tries again",
        )
    )
