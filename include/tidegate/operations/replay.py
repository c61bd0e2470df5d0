"""Replay: a range of what a subscription reads once more, into another output, while its group stays untouched.

It is read under a subscription of its own, derived from the definition, whose positions are in the ledger. The ranges
are fixed when it begins, so that whoever runs it again goes on with the same ones, and it ends by itself.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.config.outputs import output_uri
from tidegate.model.batch import Resolution, State
from tidegate.model.errors import StaleError, UnavailableError, WrongDefinitionError, first_few, message
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.subscription import Cursor, Subscription, TopicPartitions
from tidegate.operations.other_output import other_output
from tidegate.ports import RecordSource, Replay
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import Run, run_batch
from tidegate.steps.anchor import AtTime, Earliest, Latest, offsets_of
from tidegate.steps.reset_group import ToOffsets

_AGAIN = (
    "this is a replay: correct the cause, then the same `tidegate replay`, or `tidegate_replay` with this run's conf, "
    "goes on from here, without `tidegate clear` or `tidegate group reset`"
)
Bound = Earliest | Latest | AtTime | ToOffsets
"""From where or to where each partition is read."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is to be read once more, and into which output, as it was written; who wants it and why."""

    start: Bound
    end: Bound
    output: str
    asked: str
    by: str
    note: str = ""

    def name(self, subscription: str) -> str:
        """The derived subscription's: the same for the same request, so that it is gone on with."""
        digest = hashlib.sha256(f"{subscription}\n{self.asked}\n{self.output}".encode()).hexdigest()
        return f"{subscription}-replay-{digest[:8]}"


@dataclass(slots=True)
class Replayed:
    """What a replay has done in this process so far."""

    batches: int = 0
    records: int = 0
    rows: int = 0
    rejected: int = 0

    def count(self, run: Run) -> None:
        """Add a run."""
        if run.batch is not None:
            self.batches += 1
            self.records += run.batch.landed_records
            self.rows += run.batch.rows or 0
            self.rejected += run.batch.rejected or 0


def begin_replay(pipeline: Pipeline, request: ReplayRequest, home: Path) -> Replay:
    """The replay of this request as the ledger knows it: one that was begun before keeps its ranges.

    Raises as `preview_replay` does.
    """
    return pipeline.ledger.begin_replay(preview_replay(pipeline, request, home))


def preview_replay(pipeline: Pipeline, request: ReplayRequest, home: Path) -> Replay:
    """The replay that this request begins, or the one that was begun for it before; nothing is noted.

    Raises WrongDefinitionError where there is nothing to read, for an offset that its partition doesn't hold, and for
    the output of a subscription; StaleError for an output into which another replay is under way.
    """
    subscription = pipeline.subscription
    wanted = other_output(pipeline, request.output, home, "nothing was replayed")
    known = {each.name: each for each in pipeline.ledger.replays(subscription.name)}
    name = request.name(subscription.name)
    if name in known:
        return known[name]
    ranges = _ranges(pipeline, request)
    now = pipeline.ledger.now()
    new = Replay(name, subscription.name, request.output, request.asked, request.by, now, request.note, ranges)
    for other in known.values():
        if not other.is_done and target(subscription, other, home) == wanted:  # both would write the same records
            why = f"a replay {other.asked} into {new.output}, which {other.by} began, isn't done: nothing was replayed"
            raise StaleError(
                message(why, subscription.place, "end that one by the same command first, or name another output")
            )
    return new


def derived(subscription: Subscription, replay: Replay) -> Subscription:
    """The subscription that reads a replay: exactly its ranges, and nothing of it waits for anybody.

    A strategy that commits elsewhere or at another time is the default one here; retry topics, which the live group
    reads, and questions have no place.
    """
    policy, failing = subscription.commit_policy, subscription.failure_policy
    cursors: dict[str, dict[int, Cursor]] = {}
    ends: dict[str, dict[int, int]] = {}
    for r in replay.ranges:
        cursors.setdefault(r.topic, {})[r.partition] = Cursor("AT_OFFSET", offset=r.start)
        ends.setdefault(r.topic, {})[r.partition] = r.end
    is_kept = policy.commits_acknowledged or policy.keeps_state
    return replace(
        subscription,
        name=replay.name,
        schedule=None,
        topics=TopicPartitions({topic: tuple(sorted(numbers)) for topic, numbers in ends.items()}, cursors, ends),
        cursor=None,
        consumer=replace(subscription.consumer, group_id=f"{subscription.consumer.group_id}-{replay.name}"),
        commit_strategy=subscription.commit_strategy if is_kept else "after-processing",
        failure_strategy="fail" if failing.uses_retry_topics or failing.asks else subscription.failure_strategy,
        dead_letter_queue=replace(
            subscription.dead_letter_queue, topic=subscription.dead_letter_topic or "", replay=replay.name
        ),
        processing=replace(subscription.processing, output=replay.output),
    )


def target(subscription: Subscription, replay: Replay, home: Path) -> str:
    """The URI of a replay's output, which may be written relative to `home`."""
    return output_uri(home, derived(subscription, replay).processing)


def run_replay(pipeline: Pipeline, replay: Replay, by: str, said: Callable[[Run], None]) -> Replayed:
    """Deliver all that is left of a replay, batch by batch, and have the ledger note its end.

    `pipeline` is that of the derived subscription. A batch that stopped is delivered again: whoever runs the replay
    wants that. Raises what a run raises, and what to do: no definition has a replay's name, so no other command does.
    """
    offsets = pipeline.offsets if pipeline.subscription.commit_policy.keeps_state else pipeline.elsewhere
    if offsets is None:
        raise AssertionError(f"{replay.name}: there is no store for its positions")
    of_replay = replace(pipeline, offsets=offsets, elsewhere=None)
    stopped = pipeline.ledger.look(replay.name).open
    if stopped is not None and stopped.state is State.HELD:
        of_replay.clear(by, "replayed again", Resolution.REDELIVER, stopped.id)
    done = Replayed()
    while _unread(of_replay, replay):
        run = run_batch(of_replay, lambda _: None)
        if run.error is not None:
            raise type(run.error)(f"{run.error}\n  {_AGAIN}") from run.error
        if run.batch is None and _unread(of_replay, replay):
            raise UnavailableError(message(f"nothing came: {run.why}", pipeline.place, "run the replay again later"))
        done.count(run)
        said(run)
    pipeline.ledger.end_replay(replay.name)
    return done


def _unread(pipeline: Pipeline, replay: Replay) -> bool:
    committed = pipeline.offsets.committed([r.at for r in replay.ranges])
    return any(r.at not in committed or committed[r.at].offset < r.end for r in replay.ranges)


def _ranges(pipeline: Pipeline, request: ReplayRequest) -> tuple[Range, ...]:
    """What the request means now, of each partition that holds any of it."""
    subscription, source = pipeline.subscription, pipeline.source
    partitions = source.partitions(subscription.topics)
    for bound in (request.start, request.end):
        if isinstance(bound, ToOffsets) and (unknown := sorted(set(bound.offsets) - set(partitions))):
            why = f"nothing was replayed: the subscription reads no {first_few(unknown)}"
            raise WrongDefinitionError(message(why, pipeline.place, "name partitions of its topics"))
    named = [set(bound.offsets) for bound in (request.start, request.end) if isinstance(bound, ToOffsets)]
    chosen = [at for at in partitions if all(at in each for each in named)]
    marks = source.watermarks(chosen)
    starts, ends = (_resolved(bound, chosen, marks, source) for bound in (request.start, request.end))
    outside = [
        f"{at} holds {marks[at]}, and [{starts[at]}, {ends[at]}) is asked for"
        for at in chosen
        if not (marks[at].earliest <= starts[at] and ends[at] <= marks[at].end)
    ]
    if outside:
        why = f"nothing was replayed: {first_few(outside)}"
        raise WrongDefinitionError(message(why, pipeline.place, "name offsets that it holds"))
    ranges = tuple(Range(*at, starts[at], ends[at]) for at in chosen if starts[at] < ends[at])
    if not ranges:
        why = f"there is nothing to replay: no partition holds anything {request.asked}"
        raise WrongDefinitionError(message(why, pipeline.place, "name an earlier start or a later end"))
    return ranges


def _resolved(
    bound: Bound,
    chosen: Collection[TopicPartition],
    marks: Mapping[TopicPartition, Watermarks],
    source: RecordSource,
) -> Mapping[TopicPartition, int]:
    if isinstance(bound, ToOffsets):
        return bound.offsets
    return offsets_of(dict.fromkeys(chosen, bound), marks, source)
