"""What published batches hold, and what the ledger says of them, held against what was to be read."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simulation.facts import At, Records, first_place, listed, union
from simulation.violation import ViolationError
from tidegate.model.batch import Batch, Outcome
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Failure

if TYPE_CHECKING:
    from simulation.world import World

_NEWEST = 3


def check_contents(world: "World", batch: Batch, written: list[At], rejected: Records, done: Records) -> None:
    """A published batch holds each record of its ranges once, in the lake or among the rejected ones.

    But what is done with before may be missing, and a job that acknowledges may have rejected records behind its end.
    """
    ranged = union({(r.at, o) for o in visible(world, r.at) if r.start <= o < r.end} for r in batch.ranges)
    held = {*written, *rejected}
    if doubled := _twice([*written, *rejected]):
        raise ViolationError(f"batch {batch.id} holds records twice: {listed(doubled)}")
    if missing := ranged - held - done:
        raise ViolationError(f"batch {batch.id} says it holds {listed(missing)}, which it doesn't")
    goes_on = world.spark.acknowledges
    outside = {r for r in written if not batch_holds(batch, *r)}
    if strange := outside | {r for r in rejected if not batch_holds(batch, *r, goes_on=goes_on)}:
        raise ViolationError(f"batch {batch.id} holds {listed(strange)}, which lie outside of its ranges")
    behind = {(at, o) for at, o in held - ranged if o in world.topics.logs[at].entries}
    if aborted := {(at, o) for at, o in behind if o not in visible(world, at)}:
        raise ViolationError(f"batch {batch.id} holds {listed(aborted)}, of transactions that weren't committed")


def batch_holds(batch: Batch, at: TopicPartition, offset: int, *, goes_on: bool = False) -> bool:
    """Whether an offset lies in a batch's ranges; where it `goes_on`, or behind one."""
    return any(r.at == at and r.start <= offset and (goes_on or offset < r.end) for r in batch.ranges)


def before_any(records: Records, of: Iterable[At]) -> Records:
    """Those that lie before one of the records in its partition."""
    return frozenset((at, o) for at, o in of if any(at == other and o < offset for other, offset in records))


def check_counts(world: "World") -> None:
    """What the ledger says of a published batch that it closed is what there is."""
    for outcome in world.ledger.history(world.subscription.name, len(world.lake.published_attempts) + _NEWEST):
        batch = outcome.batch
        held = world.lake.published_attempts.get((batch.output, batch.id))
        if held is None or batch.condition not in (Outcome.COMMITTED, Outcome.UNCOMMITTED) or batch.rejected is None:
            continue
        if batch.rejected != len(held.attempt.rejected):
            raise ViolationError(f"{batch} counts {batch.rejected} rejected records of {len(held.attempt.rejected)}")


def visible(world: "World", at: TopicPartition) -> Iterator[int]:
    """The offsets of a partition's records, as a reader of committed ones sees them."""
    log = world.topics.logs[at]
    return (offset for offset, _ in log.records(0, log.high, committed_only=True))


def landed_offsets(world: "World", batch: Batch, at: TopicPartition) -> list[int]:
    """The offsets of a partition's records that landed, in order, whatever has become of them in the topic since."""
    records = world.landing.records([file.uri for file in batch.files], Failure("", ""))
    return sorted(each.offset for each in records if each.at == at)


def _twice(records: Iterable[At]) -> set[At]:
    return {record for record, times in Counter(records).items() if times > 1}


def first_places(world: "World", at: TopicPartition) -> Iterator[tuple[int, At]]:
    """The offsets of a retry topic's records, and where each record was first."""
    log = world.topics.logs[at]
    return ((o, first_place(record.headers)) for o, record in log.records(0, log.high, committed_only=True))
