"""The records to produce: those that go elsewhere with a batch's commit, because they weren't processed."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from tidegate.model.acknowledged import Acknowledged
from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.errors import message
from tidegate.model.offsets import TopicPartition, starts
from tidegate.model.records import Dropped, Failure, Outgoing, Rejected, headline
from tidegate.steps.acknowledge import AckReader
from tidegate.steps.clear import answer_of
from tidegate.steps.context import Context
from tidegate.strategies.commit.interpret import Interpretation, ResumeFrom
from tidegate.strategies.failure.dead_letters import DeadLetters
from tidegate.strategies.failure.delayed_retry import DelayedRetry
from tidegate.strategies.failure.registry import failure_strategy

log = logging.getLogger(__name__)

_BATCH_FAILED = "tidegate.BatchFailed"
_DROPPED = re.compile(r"(?:^|; )(\d+) rejected records? (?:was|were) dropped: ")


def produced(decided: Iterable[Outgoing | Dropped], note: Callable[[str], None]) -> Iterator[Outgoing]:
    """What is to be produced; how many records are dropped, and why, is noted behind the last one."""
    dropped: Counter[str] = Counter()
    for one in decided:
        if isinstance(one, Dropped):
            dropped[one.why] += 1
        else:
            yield one
    for why, number in dropped.items():
        note(f"{number} rejected record{'s were' if number > 1 else ' was'} dropped: {why}")


def dropped_by(batch: Batch) -> int:
    """How many of its records were dropped, by what `produced` noted of them in the ledger."""
    return sum(map(int, _DROPPED.findall(batch.reason or "")))


def outgoing(ctx: Context, batch: Batch, stands: Interpretation) -> Iterator[Outgoing]:
    """What is to be produced: of a published batch its rejected records, of one that is given up all of them.

    They are found where they are durable already. How many are dropped instead, and why, is logged and noted in the
    ledger once the last one is asked for. A rejected record behind the batch's end goes with the batch that passes it.
    `stands` is what the group's positions mean for the batch: what was acknowledged, committed or not, is done with.
    Raises CorruptFileError, naming them, where landed files have changed that records are read from.
    """

    def note(said: str) -> None:
        log.error("%s", message(said, batch))
        ctx.ledger.remark(batch.id, said)

    return produced(_decided(ctx, batch, stands), note)


def _decided(ctx: Context, batch: Batch, stands: Interpretation) -> Iterable[Outgoing | Dropped]:
    match batch.state, batch.resolution:
        case State.DISCARDING, Resolution.DEAD_LETTER:
            return DeadLetters.of(ctx.subscription).outgoing(_left(ctx, batch, stands), ctx.ledger.now())
        case State.DISCARDING, Resolution.RETRY_LATER:
            return DelayedRetry.of(ctx.subscription).outgoing(_left(ctx, batch, stands), ctx.ledger.now())
        case State.PUBLISHED, _ if batch.rejected:
            passed = {r.at: range(r.start, r.end) for r in batch.ranges}
            rejected = ctx.lake.rejected(batch.output, batch.next_receipt)
            inside = (record for record in rejected if record.offset in passed.get(record.at, ()))
            return failure_strategy(ctx.subscription).outgoing(inside, ctx.ledger.now())
        case _:
            return ()


def _left(ctx: Context, batch: Batch, stands: Interpretation) -> Iterable[Rejected]:
    failure = Failure(_BATCH_FAILED, _why_whole(ctx, batch))
    begun = stands.positions if isinstance(stands, ResumeFrom) else starts(batch.ranges)
    rest = {r.at: range(begun[r.at], r.end) for r in batch.ranges}
    ctx.landing.verify(batch.files)
    done = _acknowledged(ctx, batch)
    landed = ctx.landing.records([file.uri for file in batch.files], failure)
    handed = (record for record in landed if record.offset in rest.get(record.at, ()))
    return (record for record in handed if record.at not in done or not done[record.at].has(record.offset))


def _why_whole(ctx: Context, batch: Batch) -> str:
    """Why all that is left of a batch goes elsewhere: what it failed by, and that a person has answered so."""
    why = headline(batch.reason or "") or _BATCH_FAILED
    if answer_of(batch, ctx.ledger) is not Resolution.DEAD_LETTER:
        return why
    return f"its batch was sent here whole by a person's answer; it had failed: {why}"


def _acknowledged(ctx: Context, batch: Batch) -> Mapping[TopicPartition, Acknowledged]:
    """What any delivery of the batch acknowledged; nothing where none did."""
    if not batch.commit_policy.commits_acknowledged:
        return {}
    tally = AckReader(ctx, batch)
    tally.take_of_batch()
    return {} if tally.is_empty else tally.now()
