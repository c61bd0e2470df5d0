"""What each of the ledger's writes makes of a batch: pure rules, the same for every kind of ledger."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from tidegate.model.batch import (
    RESOLVED,
    Batch,
    Delivery,
    Landed,
    Outcome,
    PartialRange,
    Resolution,
    State,
    may_follow,
)
from tidegate.model.errors import OvertakenError, StaleError, TransitionError, location, message
from tidegate.model.manifest import Counts, Published, Result
from tidegate.model.offsets import Range, TopicPartition, ends, starts
from tidegate.ports import Decision

_LEFT_NO_TRACE = (Outcome.EMPTY, Outcome.ABANDONED)

ENDED_WELL = (Outcome.COMMITTED, Outcome.UNCOMMITTED)
"""How a batch ends of which the lake has all that anybody may still want, if anything of it was published."""


def check_plan(batch: Batch, published: Published | None = None) -> None:
    """A batch is opened as planned, and so that its members can land it.

    Each partition has one range and at most one member, each range with something to read has a member, and there is
    something to read, unless it is published already. Raises ValueError for anything else.
    """
    if batch.state is not State.PLANNED:
        raise ValueError(f"{batch} is {batch.condition}: only a planned batch can be opened")
    partitions = [r.at for r in batch.ranges]
    shared = [at for share in batch.shares for at in share]
    if len(set(partitions)) < len(partitions) or len(set(shared)) < len(shared):
        raise ValueError(f"{batch}: a partition is planned twice")
    if strangers := set(shared) - set(partitions):
        raise ValueError(f"{batch}: members are to read {_named(strangers)}, of which there is no range")
    if unread := {r.at for r in batch.ranges if not r.is_empty} - set(shared):
        raise ValueError(f"{batch}: no member reads {_named(unread)}")
    if published is None and not batch.moved:
        raise ValueError(f"{batch}: there is nothing to read in any of its ranges")


def check_room(batch: Batch, seen: str, version: str, others: Mapping[str, Outcome | None]) -> None:
    """A batch is opened only in the ledger that was seen, while none is open, and if it left no trace before.

    `others` are the outcomes of the open batch and of the one of the same id, if there are any. Raises StaleError, if
    another run has gone on since the ledger was seen OvertakenError.
    """
    if seen != version:
        raise OvertakenError(
            message(
                "another run of this subscription has gone on meanwhile, and takes the records that this one would "
                "have: nothing is lost and nothing is left to be done",
                batch,
                "the next run plans anew",
            )
        )
    for batch_id, outcome in others.items():
        if outcome is None:
            raise OvertakenError(
                message(
                    f"another run of this subscription has opened batch {batch_id} meanwhile: nothing is lost and "
                    "nothing is left to be done",
                    location(subscription=batch.subscription),
                )
            )
        if outcome not in _LEFT_NO_TRACE:
            why = f"the batch can't be opened: batch {batch_id} is {outcome}"
            raise StaleError(message(why, batch, "the next run reconciles it"))


def check_report(batch: Batch, member: int, landed: Landed) -> None:
    """A member reports each range of its own share, from its start to its planned end at most.

    Raises StaleError for a report of another share: of a plan that was lost with its ledger, as far as anybody can
    tell. ValueError for one that can't be of any plan.
    """
    share = batch.share(member)
    reported = ends(landed.ranges)
    if len(reported) < len(landed.ranges) or starts(landed.ranges) != starts(share):
        raise StaleError(
            message(
                f"member {member} was to land {_listed(share)} and reports {_listed(landed.ranges)}, of another plan",
                batch,
            )
        )
    if beyond := [r for r in share if reported[r.at] > r.end]:
        raise StaleError(
            message(f"member {member} reports records beyond the end of {_listed(beyond)}, of another plan", batch)
        )
    if strangers := set(landed.records) - set(reported):
        raise ValueError(f"{batch}: member {member} counts records of {_named(strangers)}, not of its share")
    if any(count < 0 for count in landed.records.values()):
        raise ValueError(f"{batch}: member {member} reports a negative number of records")


def land(batch: Batch, reports: Mapping[int, Landed]) -> Batch:
    """The batch with these reports: landed once every member has reported, or empty if no position moves."""
    whole = batch.advanced(State.LANDED)
    if not reports.keys() >= set(batch.members_with_work()):
        return batch
    reached = {r.at: r for report in reports.values() for r in report.ranges}
    ranges = tuple(reached.get(r.at, r) for r in batch.ranges)
    return replace(
        batch.closed(Outcome.EMPTY) if all(r.is_empty for r in ranges) else whole,
        ranges=ranges,
        records={r.at: report.records.get(r.at, 0) for report in reports.values() for r in report.ranges},
        files=tuple(file for member in sorted(reports) for file in reports[member].files),
    )


def start(batch: Batch) -> Batch:
    """The batch once a delivery has begun: what an earlier one achieved counts no more.

    Raises OvertakenError if another run has brought it further than that; TransitionError if it hasn't landed.
    """
    if not may_follow(batch.state, State.PROCESSING) and batch.state is not State.PLANNED:
        how = "has gone on with" if batch.is_open else "has settled"
        raise OvertakenError(
            message(
                f"another run of this subscription {how} this batch, which is {batch.condition} now: nothing is lost "
                "and nothing is left for this run to do",
                batch,
            )
        )
    nothing_made: dict[str, None] = dict.fromkeys(("attempt", "rows", "rejected", "filtered"))
    return batch.advanced(State.PROCESSING, resolution=None, reason=None, **nothing_made)


def win(
    batch: Batch, delivery: Delivery, result: Result, counts: Counts, reached: Iterable[PartialRange] = ()
) -> Batch:
    """The batch once a delivery was processed, as far as that came; unchanged if another one was processed before.

    Raises ValueError for a partition that no delivery of the batch can have reached.
    """
    if batch.state in (State.PROCESSED, State.PUBLISHED) or batch.outcome in (Outcome.COMMITTED, Outcome.UNCOMMITTED):
        return batch
    return shrink(batch, reached).advanced(
        State.PROCESSED,
        resolution=None,
        delivery=delivery,
        attempt=result.attempt,
        rows=counts.written,
        rejected=counts.rejected,
        filtered=result.filtered,
        seal=counts.seal,
        reason=None,
    )


def shrink(batch: Batch, reached: Iterable[PartialRange]) -> Batch:
    """The batch with ranges that end where they were reached; a range that is shorter already stays."""
    known = {r.at: r for r in batch.ranges}
    shorter: dict[TopicPartition, PartialRange] = {}
    for one in reached:
        planned = known.get(one.range.at)
        if planned is None or one.range.start != planned.start or one.records < 0:
            raise ValueError(f"{batch}: no delivery of it reaches {one.range} with {one.records} records")
        if one.range.end < planned.end:
            shorter[one.range.at] = one
    return replace(
        batch,
        ranges=tuple(shorter[r.at].range if r.at in shorter else r for r in batch.ranges),
        records={**batch.records, **{at: one.records for at, one in shorter.items()}},
    )


def adopt(batch: Batch, published: Published) -> Batch:
    """The batch as the lake holds it: a delivery that this ledger may never have heard of has published it."""
    known = {r.at: r for r in batch.ranges}
    ranges = tuple(known[r.at] if known.get(r.at) == r else r for r in published.ranges)
    planned = frozenset(ends(ranges))
    shares = tuple(tuple(at for at in share if at in planned) for share in batch.shares)
    unshared = planned - {at for share in shares for at in share}
    return batch.advanced(
        State.PUBLISHED,
        resolution=None,
        ranges=ranges,
        shares=((*shares[0], *sorted(unshared)), *shares[1:]),
        records={at: count for at, count in published.records.items() if at in planned},
        files=published.files,
        rows=published.rows,
        rejected=published.rejected,
        filtered=published.filtered,
        reason=batch.reason if batch.state is State.PROCESSED else None,
    )


def left_out(batch: Batch, published: Published) -> dict[TopicPartition, int]:
    """Where the partitions stand without which a batch goes on: at their ends, if the lake has their rows."""
    held = {r.at for r in published.ranges}
    has_rows = batch.state is State.PUBLISHED
    return {r.at: r.end if has_rows else r.start for r in batch.ranges if r.at not in held}


def passed(batch: Batch, outcome: Outcome) -> dict[TopicPartition, int]:
    """Where the partitions of a batch stand that is given up though the lake has its rows: at their ends."""
    return ends(batch.ranges) if batch.state is State.PUBLISHED and outcome is Outcome.ABANDONED else {}


def last_ends(
    newest: Iterable[Range], opened: int, noted: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """What was committed last: the ends of the newest committed batch, and what was committed without one since.

    `opened` is the subscription's version that opened the batch, `noted` has each offset with the version at which
    it was committed.
    """
    since = {at for at, (_, version) in noted.items() if version > opened}
    before = {at: offset for at, (offset, _) in noted.items() if at not in since}
    return before | ends(newest) | {at: noted[at][0] for at in since}


def group_holder(subscription: str, cluster_id: str | None, held: Mapping[str, str | None]) -> str | None:
    """Who else reads with a group in this cluster: `held` has the cluster's id by subscription, None if unknown."""
    others = {name: other for name, other in held.items() if name != subscription}
    known = (name for name, other in others.items() if other == cluster_id)
    unknown = (name for name, other in others.items() if other is None or cluster_id is None)
    return next(iter([*sorted(known), *sorted(unknown)]), None)


def cannot_take_over(subscription: str, group: str) -> StaleError:
    """What a ledger says where a batch stands in the way."""
    return StaleError(
        message(
            f"the subscription has an open batch, so it can't take over group {group}",
            location(subscription=subscription),
            "the next run finds out",
        )
    )


def overtaken_positions(subscription: str, group: str) -> OvertakenError:
    """What a ledger says where a run went on while positions of a group were to be moved."""
    return OvertakenError(
        message(
            "a run of this subscription has gone on meanwhile: nothing was moved",
            location(subscription=subscription, group=group),
            "try again while no run is under way",
        )
    )


def fail(batch: Batch, delivery: Delivery, reason: str) -> Batch:
    """The batch once a delivery has failed; unchanged unless that is the newest one and still processing."""
    if batch.state is not State.PROCESSING or batch.delivery is None or batch.delivery.token != delivery.token:
        return batch
    return batch.advanced(State.FAILED, reason=reason)


def clear(batch: Batch, answer: Resolution) -> Batch:
    """The batch once somebody has decided about it, which is theirs wherever its output isn't settled.

    A delivery that is under way then counts as failed; it may still win where the batch is to be delivered again.
    """
    if not batch.is_to_be_delivered:
        raise TransitionError(
            message(f"the batch is {batch.condition}: it goes on by itself, and nothing of it can be cleared", batch)
        )
    is_decided = batch.state in (State.HELD, State.FAILED)
    why = batch.reason if is_decided or batch.reason else f"{batch.state}, cleared"
    failed = batch if is_decided else batch.resolved(Resolution.REDELIVER, why)
    return resolve(failed, answer, failed.reason)


def receive(batch: Batch) -> Batch:
    """The batch once its offsets are committed, whatever becomes of its output."""
    if not batch.is_open:
        raise TransitionError(message(f"the batch is {batch.condition}: its offsets are settled", batch))
    return replace(batch, offsets_committed=True)


def resolve(batch: Batch, resolution: Resolution, reason: str | None) -> Batch:
    """The batch, with which this is to be done; unchanged if that was decided before."""
    is_resolved = batch.state is RESOLVED[resolution] and batch.resolution in (resolution, None)
    return batch if is_resolved else batch.resolved(resolution, reason)


def close(batch: Batch, outcome: Outcome, reason: str | None) -> Batch:
    """The batch at its end; unchanged if that is how it ended before."""
    return batch if batch.outcome is outcome else batch.closed(outcome, reason)


def is_expired(batch: Batch, closed_at: datetime | None, before: datetime, *, decided: bool, newest: bool) -> bool:
    """Whether the ledger can forget a batch that was closed then.

    It was published, so that the lake's manifest has its ranges and receipt if a group is ever moved back to before it.
    Nobody `decided` about it, and it isn't the `newest` that says where its group stands.
    """
    has_ended = closed_at is not None and closed_at < before
    return has_ended and batch.outcome in ENDED_WELL and batch.rows is not None and not decided and not newest


def remark(batch: Batch, text: str) -> Batch:
    """The batch with a text added to its reason, unless that has it."""
    said = batch.reason or ""
    return batch if text in said else replace(batch, reason=f"{said}; {text}" if said else text)


def _named(partitions: set[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _listed(ranges: tuple[Range, ...] | list[Range]) -> str:
    return ", ".join(map(str, ranges)) or "nothing"


def used_operation(run: str) -> StaleError:
    """What a ledger says of a run that decided before."""
    return StaleError(f"run {run} decided before, and a run decides once: trigger another one; nothing was changed")


def storable(text: str) -> str:
    """The text without what a database refuses: a job may print, and a person paste, anything."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def storable_clearance(clearance: Decision) -> Decision:
    """The clearance as a database takes it."""
    return replace(clearance, by=storable(clearance.by), note=storable(clearance.note))


def unknown_batch(batch_id: str) -> StaleError:
    """What a ledger says that doesn't hold the batch."""
    return StaleError(
        message(
            "the ledger doesn't know the batch: was it made anew, or the batch pruned?",
            location(batch=batch_id),
            "`tidegate batches NAME` lists those that it knows; a run under way leaves the rest to the next one; where "
            "tasks run on several machines, see that `tidegate settings` names one ledger on all, in PostgreSQL",
        )
    )


def unknown_delivery(batch: str, token: str) -> StaleError:
    """What a ledger says that never started the delivery, or did before the batch was opened again."""
    why = f"the ledger didn't start delivery {token}: what that did counts no more"
    return StaleError(message(why, location(batch=batch)))
