"""What a job acknowledges is committed while it runs, and how far a batch goes is decided by it."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model import dead_letter_headers, retry_headers
from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import BatchFailedError, StaleError, TidegateError, UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import last
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.ports import Fence, Lake, Landing, OffsetStore, Processor, StagedOutput
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.effects import Effect, Method, watched
from tidegate.testing.processor import Acks
from tidegate.testing.topics import Record

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
THROTTLED: dict[str, Any] = {"commit_strategy": "throttled"}
LATEST: dict[str, Any] = {"commit_strategy": "latest"}


def acks(*steps: Collection[int], seconds: float = 5) -> list[Acks]:
    return [Acks({P0: step}, seconds) for step in steps]


def landed(world: World, count: int = 4, **definition: Any) -> Batch:
    world.produce(count)
    batch = planned(world.pipeline(**definition))
    assert batch is not None
    return batch


def partial_commits(world: World, batch: Batch) -> list[int]:
    """What was committed of partition 0 under the receipt that the batch was planned from."""
    return [offsets[P0] for offsets, metadata in world.offsets.commits[1:] if metadata == str(batch.receipt)]


def fails(world: World, batch: Batch, **definition: Any) -> None:
    """A delivery that acknowledges and then fails."""
    world.processor.failures.append("killed")
    with pytest.raises(BatchFailedError, match="killed"):
        world.pipeline(**definition).process(batch.id)


# SmallRye's CommitStrategiesTest and Queue-Over-Http's autoCommitPeriodMs: what is acknowledged between two
# commits, and what was committed by then
ROWS: Mapping[str, tuple[dict[str, Any], list[int], list[list[int]], list[int]]] = {
    "latest": (LATEST, [0, 1, 2, 3], [[0], [1], [3], [2], [1]], [1, 2, 4]),
    "throttled": (THROTTLED, [0, 1, 2, 3], [[0], [2, 1], [3]], [1, 3, 4]),
    "throttled, ends first": (THROTTLED, [0, 1, 2, 3], [[3], [1, 2], [0]], [4]),
    "throttled, with a gap": (THROTTLED, [42, 45], [[45], [42]], [46]),
    "queue over http": (THROTTLED, list(range(1, 11)), [[3, 1, 10], [2, 5, 6, 4, 8]], [2, 7]),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_acknowledged_is_committed_row_by_row(name: str) -> None:
    definition, offsets, steps, expected = ROWS[name]
    world = World()
    world.topics.produce("orders", *[Record(b"x")] * (offsets[-1] + 1), partition=0)
    world.topics.remove("orders", *(offset for offset in range(offsets[-1]) if offset not in offsets))
    world.topics.expire("orders", offsets[0])
    batch = planned(world.pipeline(**definition))
    assert batch is not None
    world.processor.acks = acks(*steps)
    fails(world, batch, **definition)
    assert partial_commits(world, batch) == expected
    assert world.offsets.positions[P0].metadata == str(batch.receipt)


def test_nothing_is_looked_at_before_the_interval_has_passed() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    told: list[Effect] = []
    world.processor.acks = [Acks({P0: [number]}, 1) for number in range(4)] + [Acks({}, 1)]
    world.pipeline(**THROTTLED)
    with suppress(BatchFailedError):
        watched(world.pipeline(**THROTTLED), Listener(told)).process(batch.id)
    assert told.count(Effect.of(StagedOutput.ack_files)) == 1
    assert partial_commits(world, batch) == [4]
    assert told.count(Effect.of(OffsetStore.fence)) == 1


def test_other_strategies_look_at_no_acknowledgements() -> None:
    world = World()
    batch = landed(world)
    told: list[Effect] = []
    world.processor.acks = acks([0], [1])
    watched(world.pipeline(), Listener(told)).process(batch.id)
    looks = [
        StagedOutput.ack_files,
        StagedOutput.read_acks,
        Landing.pending_acks,
        OffsetStore.committed,
        OffsetStore.fence,
    ]
    assert not {*map(Effect.of, looks)} & {*told}


def test_a_file_is_read_once_and_nothing_is_committed_without_progress() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    told: list[Effect] = []
    world.processor.acks = acks([0], [], [2], [1, 3])
    watched(world.pipeline(**THROTTLED), Listener(told)).process(batch.id)
    assert told.count(Effect.of(StagedOutput.read_acks)) == 4 + 1  # and what was rejected
    assert told.count(Effect.of(Landing.pending_acks)) == 1
    assert told.count(Effect.of(Fence.commit)) == 2


def test_without_acknowledgements_what_landed_isnt_read() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    told: list[Effect] = []
    world.processor.seconds = 10
    watched(world.pipeline(**THROTTLED), Listener(told)).process(batch.id)
    assert told.count(Effect.of(StagedOutput.ack_files)) == 1
    assert not {*map(Effect.of, [Landing.pending_acks, OffsetStore.fence])} & {*told}


class Listener:
    def __init__(self, told: list[Effect]) -> None:
        self.told = told

    def before(self, effect: Effect) -> None:
        self.told.append(effect)

    def after(self, effect: Effect) -> None:
        pass


@pytest.mark.parametrize("definition", [THROTTLED, LATEST])
def test_a_job_that_acknowledges_nothing_by_itself_acknowledges_all_by_ending_well(definition: dict[str, Any]) -> None:
    world = World()
    pipeline, batch = world.pipeline(**definition), landed(world, **definition)
    pipeline.process(batch.id)
    done = pipeline.settle(batch.id)
    assert done is not None
    assert (done.condition, done.rows, world.committed(), world.published()) == (Outcome.COMMITTED, 4, 4, [(0, 4)])
    assert world.offsets.positions[P0].metadata == str(batch.next_receipt)


def test_a_batch_that_was_acknowledged_whole_ends_as_ever() -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, **THROTTLED)
    world.processor.acks = acks([0, 1], [2, 3])
    pipeline.process(batch.id)
    assert (world.committed(), world.offsets.positions[P0].metadata) == (4, str(batch.receipt))
    pipeline.settle(batch.id)
    assert (world.published(), world.offsets.positions[P0].metadata) == ([(0, 4)], str(batch.next_receipt))
    assert pipeline.plan().batch is None


# what is acknowledged of six records, the end of the batch, and what the next batch begins with
SHRUNK: Mapping[str, tuple[dict[str, Any], list[int], int]] = {
    "throttled": (THROTTLED, [0, 1, 3, 5], 2),
    "latest": (LATEST, [0, 3], 4),
}


@pytest.mark.parametrize("name", SHRUNK)
def test_what_isnt_acknowledged_is_left_to_the_next_batch(name: str) -> None:
    definition, done, end = SHRUNK[name]
    world = World()
    pipeline, batch = world.pipeline(**definition), landed(world, 6, **definition)
    world.processor.acks = acks(done, seconds=1)
    processed = pipeline.process(batch.id)
    assert processed is not None
    assert (processed.ranges[0].end, processed.landed_records, processed.rows) == (end, end, 6)
    pipeline.settle(batch.id)
    assert world.published() == [(0, end)]
    assert world.committed() == end
    world.processor.acks = None
    following = planned(pipeline)
    assert following is not None
    assert (following.ranges[0].start, following.landed_records) == (end, 6 - end)
    pipeline.process(following.id)
    pipeline.settle(following.id)
    assert world.published() == [(0, end), (end, 6)]


def test_rows_that_come_again_are_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1], seconds=1)
    pipeline.process(batch.id)
    told = "rows of records that weren't acknowledged and come again with the next batch"
    assert told in caplog.text
    committed = pipeline.settle(batch.id)
    assert committed is not None
    assert (committed.condition, told in (committed.reason or "")) == (Outcome.COMMITTED, True)


def test_withheld_rows_of_records_that_do_not_come_again_fail_the_delivery() -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks, world.processor.withheld = acks(range(6), seconds=1), 2
    with pytest.raises(BatchFailedError, match="withheld 2 rows, and acknowledged all"):
        pipeline.process(batch.id)


def test_latest_says_which_records_it_passed_that_no_delivery_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    batch = landed(world, 5, **LATEST)
    world.processor.acks = acks([0, 2, 4])
    fails(world, batch, **LATEST)
    done = deliver(world.pipeline(**LATEST))
    assert done is not None
    said = (
        "2 records that no delivery acknowledged lie before what is committed, and aren't delivered any more: "
        "orders-0 at 1, orders-0 at 3"
    )
    assert done.reason == said
    assert said in caplog.text
    assert "commit-strategy: throttled commits no further" in caplog.text


def test_throttled_passes_no_record() -> None:
    world = World()
    batch = landed(world, 5, **THROTTLED)
    world.processor.acks = acks([0, 2, 4])
    fails(world, batch, **THROTTLED)
    world.processor.acks = acks([1, 2, 3, 4])
    done = deliver(world.pipeline(**THROTTLED))
    assert done is not None
    assert done.reason is None


def test_partitions_shrink_apart() -> None:
    world = World(partitions=2)
    world.produce(3, partition=1)
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 4, **THROTTLED)
    world.processor.acks = [Acks({P0: range(4), P1: [2]}, 1)]
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert (world.committed(0), world.committed(1)) == (4, 0)
    assert {position.metadata for position in world.offsets.positions.values()} == {str(batch.next_receipt)}


def test_a_rejected_record_is_done_with() -> None:
    world = World()
    definition = THROTTLED | {"failure_strategy": "dead-letter-queue", "dead_letter_queue": DeadLetterQueue("dead")}
    world.topics.create("dead", 1)
    pipeline, batch = world.pipeline(**definition), landed(world, **definition)
    world.processor.rejected = 1
    world.processor.acks = acks([1, 2], seconds=1)
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert (world.committed(), world.published()) == (3, [(0, 3)])
    assert [outgoing.topic for outgoing in world.offsets.produced] == ["dead"]


@pytest.mark.parametrize(
    ("definition", "step"), [(THROTTLED, [1, 3]), (THROTTLED, []), (LATEST, [])], ids=["gap", "throttled", "latest"]
)
def test_a_job_that_acknowledges_nothing_has_failed(definition: dict[str, Any], step: Sequence[int]) -> None:
    world = World()
    batch = landed(world, **definition)
    world.processor.acks = acks(step)
    said = "handed 4 records, ended well, and acknowledged none .* topic orders, partition 0, offset 0"
    with pytest.raises(BatchFailedError, match=said):
        world.pipeline(**definition).process(batch.id)
    assert world.ledger.batch(batch.id).state is State.FAILED


def test_acknowledging_what_never_landed_fails_the_job_while_it_runs() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = acks([0], [7], [1])
    with pytest.raises(BatchFailedError, match=r"acknowledged that didn't land .*partition 0, offset 7"):
        world.pipeline(**THROTTLED).process(batch.id)
    assert len(world.lake.acks) == 2
    assert world.ledger.batch(batch.id).state is State.FAILED


# A delivery that begins after partial commits


def test_the_next_delivery_is_handed_only_the_rest() -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1, 4])
    fails(world, batch, **THROTTLED)
    world.processor.acks = None
    again = planned(pipeline)
    assert again is not None
    assert again.id == batch.id
    pipeline.process(batch.id)
    first, second = world.processor.delivered
    assert (first.records, second.records) == (6, 4)
    assert (second.batch.ranges[0].start, second.batch.ranges[0].end) == (2, 6)
    assert second.batch.files == first.batch.files
    done = pipeline.settle(batch.id)
    assert done is not None
    assert (done.rows, done.landed_records, world.published(), world.committed()) == (4, 6, [(0, 6)], 6)


def test_a_delivery_whose_rest_is_nothing_ends_the_batch() -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, **THROTTLED)
    world.processor.acks = acks(range(4))
    fails(world, batch, **THROTTLED)
    world.processor.acks = []
    pipeline.process(batch.id)
    assert world.processor.delivered[-1].records == 0
    pipeline.settle(batch.id)
    assert (world.published(), world.committed()) == ([(0, 4)], 4)


def test_without_progress_beyond_what_was_committed_a_delivery_has_failed() -> None:
    world = World()
    batch = landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1])
    fails(world, batch, **THROTTLED)
    world.processor.acks = acks([5])
    with pytest.raises(BatchFailedError, match=r"handed 4 records, .* offset 2"):
        world.pipeline(**THROTTLED).process(batch.id)


def test_a_shrunk_batch_whose_staging_is_gone_is_delivered_again_as_it_is() -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1, 2])
    pipeline.process(batch.id)
    world.lake.set_aside(batch.output, batch.next_receipt)
    with pytest.raises(BatchFailedError, match="is gone"):
        pipeline.settle(batch.id)
    world.processor.acks = None
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert (world.published(), world.committed()) == ([(0, 3)], 3)


def test_only_the_rest_of_a_given_up_batch_is_dead_lettered() -> None:
    world = World()
    world.topics.create("dead", 1)
    queue = {"failure_strategy": "dead-letter-queue", "dead_letter_queue": DeadLetterQueue("dead")}
    definition = THROTTLED | queue | {"max_retries": 0}
    pipeline, batch = world.pipeline(**definition), landed(world, **definition)
    world.processor.acks = acks([0, 1])
    fails(world, batch, **definition)
    settled = pipeline.settle(batch.id)
    assert settled is not None
    assert settled.outcome is Outcome.DEAD_LETTERED
    assert len(world.offsets.produced) == 2
    assert world.committed() == 4


# A delivery that ends before its acknowledgements are looked at


def unseen(offsets: Collection[int]) -> list[Acks]:
    """Acknowledged within the first interval."""
    return [Acks({P0: offsets}, 1, watched=False)]


@pytest.mark.parametrize(("definition", "stands"), [(THROTTLED, 3), (LATEST, 6)])
def test_what_a_job_acknowledged_just_before_it_failed_is_committed(definition: dict[str, Any], stands: int) -> None:
    world = World()
    batch = landed(world, 10, **definition)
    world.processor.acks = unseen([0, 1, 2, 5])
    fails(world, batch, **definition)
    assert partial_commits(world, batch) == [stands]
    assert world.ledger.batch(batch.id).state is State.FAILED


def test_what_a_job_acknowledged_is_committed_though_its_result_is_refused() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = unseen([0, 1])
    world.processor.lost = 1
    with pytest.raises(BatchFailedError, match="accounts for 3"):
        world.pipeline(**THROTTLED).process(batch.id)
    assert partial_commits(world, batch) == [2]


def test_what_a_job_acknowledged_is_committed_when_it_is_interrupted() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = unseen([0, 1])

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(world.pipeline(**THROTTLED), Disturbed(StagedOutput.results, interrupt)).process(batch.id)
    assert partial_commits(world, batch) == [2]


@pytest.mark.parametrize("at", [StagedOutput.ack_files, OffsetStore.fence, Fence.commit])
def test_what_stands_in_the_way_of_the_last_look_is_not_told_in_place_of_the_failure(at: Method) -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = unseen([0, 1])
    world.processor.failures.append("killed")
    with pytest.raises(BatchFailedError, match="killed"):
        watched(world.pipeline(**THROTTLED), Disturbed(at, away)).process(batch.id)
    assert partial_commits(world, batch) == []
    world.processor.acks = None
    world.pipeline(**THROTTLED).process(batch.id)
    assert (partial_commits(world, batch), world.processor.delivered[-1].records) == ([2], 2)


def test_the_last_look_passes_over_what_never_landed() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = unseen([0, 7])
    fails(world, batch, **THROTTLED)
    assert partial_commits(world, batch) == [1]


class Dead:
    """The process is gone from an effect on: nothing that is unwound does anything any more."""

    def __init__(self, at: Method) -> None:
        self.at, self.is_dead = Effect.of(at), False

    def before(self, effect: Effect) -> None:
        self.is_dead = self.is_dead or effect == self.at
        if self.is_dead:
            raise Kill

    def after(self, effect: Effect) -> None:
        pass


def dies(world: World, batch: Batch, **definition: Any) -> None:
    """A delivery whose process is killed before it has looked at anything."""
    with pytest.raises(Kill):
        watched(world.pipeline(**definition), Dead(StagedOutput.results)).process(batch.id)
    assert world.ledger.batch(batch.id).state is State.PROCESSING


@pytest.mark.parametrize(("definition", "stands"), [(THROTTLED, 3), (LATEST, 6)])
def test_what_nobody_saw_because_the_run_was_killed_is_committed_before_the_rest_is_handed_out(
    definition: dict[str, Any], stands: int
) -> None:
    world = World()
    batch = landed(world, 10, **definition)
    world.processor.acks = unseen([0, 1, 2, 5])
    dies(world, batch, **definition)
    assert partial_commits(world, batch) == []
    world.processor.acks = None
    world.pipeline(**definition).process(batch.id)
    assert partial_commits(world, batch) == [stands]
    assert world.processor.delivered[-1].batch.ranges[0].start == stands


def test_a_look_that_cannot_be_taken_costs_no_delivery() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = unseen([0, 1])
    dies(world, batch, **THROTTLED)
    for at in (Lake.staged_folders, StagedOutput.read_acks, Landing.pending_acks, OffsetStore.fence, Fence.commit):
        with pytest.raises(UnavailableError):
            watched(world.pipeline(**THROTTLED), Disturbed(at, away)).process(batch.id)
    assert world.ledger.deliveries(batch.id) == 1


def test_a_look_takes_no_fence_from_a_run_that_has_gone_on() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = unseen([0, 1])
    dies(world, batch, **THROTTLED)
    told: list[Effect] = []
    another = Disturbed(Landing.pending_acks, lambda: world.ledger.start_delivery(batch.id))
    with pytest.raises(StaleError, match="another run has gone on"):
        watched(watched(world.pipeline(**THROTTLED), another), Listener(told)).process(batch.id)
    assert Effect.of(OffsetStore.fence) not in told


def test_what_a_dead_delivery_acknowledged_is_committed_at_the_limit_too() -> None:
    world = World()
    definition = THROTTLED | {"max_retries": 0}
    batch = landed(world, **definition)
    world.processor.acks = unseen([0, 1])
    dies(world, batch, **definition)
    world.clock.wait(3600)
    with pytest.raises(BatchFailedError, match="max-retries"):
        world.pipeline(**definition).process(batch.id)
    assert partial_commits(world, batch) == [2]


def test_what_was_acknowledged_behind_the_end_of_a_shrunk_batch_is_passed_over() -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = unseen([0, 1, 2, 5])
    pipeline.process(batch.id)
    world.lake.set_aside(batch.output, batch.next_receipt)
    with pytest.raises(BatchFailedError, match="is gone"):
        pipeline.settle(batch.id)
    world.processor.acks = None
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert (world.published(), world.committed()) == ([(0, 3)], 3)
    assert world.processor.delivered[-1].records == 0


# What isn't acknowledged, and fails


DEAD_LETTERS = {"failure_strategy": "dead-letter-queue", "dead_letter_queue": DeadLetterQueue("dead")}
RETRIED = {"failure_strategy": "delayed-retry-topic", "delayed_retry_topic": DelayedRetryTopic(("orders_retry_10",))}


def letters(world: World) -> list[int]:
    """The offsets of the records that were produced elsewhere, in order."""
    names = (dead_letter_headers.OFFSET, retry_headers.OFFSET)
    return [int(next(filter(None, (last(o.headers, n) for n in names)))) for o in world.offsets.produced]


@pytest.mark.parametrize("failures", [DEAD_LETTERS, RETRIED], ids=["dead-letter-queue", "delayed-retry-topic"])
def test_a_rejected_record_leaves_with_the_batch_that_passes_it(failures: dict[str, Any]) -> None:
    world = World()
    for topic in ("dead", "orders_retry_10"):
        world.topics.create(topic, 1)
    definition = THROTTLED | failures
    pipeline, batch = world.pipeline(**definition), landed(world, 6, **definition)
    world.processor.acks = acks([0, 2], seconds=1)
    world.processor.rejects = [1, 4]
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert (world.committed(), letters(world)) == (3, [1])
    world.processor.acks = None
    deliver(pipeline)
    assert (world.committed(), letters(world)) == (6, [1, 4])


@pytest.mark.parametrize("failures", [DEAD_LETTERS, RETRIED], ids=["dead-letter-queue", "delayed-retry-topic"])
def test_what_any_delivery_acknowledged_behind_a_gap_is_done_with_at_the_limit(failures: dict[str, Any]) -> None:
    world = World()
    for topic in ("dead", "orders_retry_10"):
        world.topics.create(topic, 1)
    definition = THROTTLED | failures | {"max_retries": 1}
    pipeline, batch = world.pipeline(**definition), landed(world, 10, **definition)
    for done in ([0, 5, 7], [9]):
        world.processor.acks = unseen(done)
        fails(world, batch, **definition)
    pipeline.settle(batch.id)
    assert (world.committed(), letters(world)) == (10, [1, 2, 3, 4, 6, 8])


# max age


def test_a_stuck_record_is_named_after_its_age_and_the_job_is_stopped() -> None:
    world = World()
    definition = THROTTLED | {"unprocessed_record_max_age_ms": 12_000}
    batch = landed(world, 6, **definition)
    world.processor.acks = acks([0, 1, 3], [], [], [], [])
    with pytest.raises(BatchFailedError) as failed:
        world.pipeline(**definition).process(batch.id)
    assert "unacknowledged for 15.0 s (topic orders, partition 0, offset 2); 3 records of the" in str(failed.value)
    assert "the last committed offset is 2" in str(failed.value)
    assert "subscription orders, batch b" in str(failed.value)
    assert world.ledger.batch(batch.id).reason == str(failed.value)
    assert len(world.lake.acks) == 3


def test_it_is_named_as_soon_as_it_is_too_old_however_long_the_interval() -> None:
    world = World()
    definition = THROTTLED | {"unprocessed_record_max_age_ms": 2000, "auto_commit_interval_ms": 600_000}
    batch = landed(world, **definition)
    world.processor.acks = acks([0], [], [], seconds=1)
    with pytest.raises(BatchFailedError, match=r"unacknowledged for 3.0 s \(.*offset 1\); .* committed offset is 1"):
        world.pipeline(**definition).process(batch.id)


@pytest.mark.parametrize(
    "definition", [LATEST, THROTTLED | {"unprocessed_record_max_age_ms": 0}], ids=["latest", "off"]
)
def test_a_record_may_stay_unacknowledged(definition: dict[str, Any]) -> None:
    world = World()
    batch = landed(world, **definition)
    world.processor.acks = acks([0], seconds=250)
    processed = world.pipeline(**definition).process(batch.id)
    assert processed is not None
    assert processed.ranges[0].end == 1


def test_a_job_that_acknowledges_nothing_while_it_runs_has_no_longer() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.seconds = 61
    with pytest.raises(BatchFailedError, match=r"unacknowledged for 61\.0 s \(.*offset 0\); 4 records"):
        world.pipeline(**THROTTLED).process(batch.id)


# What stands in the way


class Disturbed:
    """A watcher that does something once, before an effect."""

    def __init__(self, at: Method, what: Any) -> None:
        self.at, self.what = Effect.of(at), what

    def before(self, effect: Effect) -> None:
        if effect == self.at and self.what is not None:
            what, self.what = self.what, None
            what()

    def after(self, effect: Effect) -> None:
        pass


def away() -> None:
    raise UnavailableError("it doesn't answer")


@pytest.mark.parametrize(
    "at",
    [
        StagedOutput.ack_files,
        StagedOutput.read_acks,
        Landing.pending_acks,
        OffsetStore.fence,
        Fence.committed,
        Fence.commit,
    ],
)
def test_what_is_away_for_now_is_tried_again_with_the_next_commit(at: Method) -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = acks([0], [1], [])
    watched(world.pipeline(**THROTTLED), Disturbed(at, away)).process(batch.id)
    assert partial_commits(world, batch) == [2]


def test_a_live_member_of_the_group_is_waited_for() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = acks([0], [1])
    pipeline = watched(world.pipeline(**THROTTLED), Disturbed(Processor.run, lambda: world.offsets.join("tool")))
    pipeline.process(batch.id)
    assert partial_commits(world, batch) == []
    world.offsets.leave("tool")
    world.pipeline(**THROTTLED).settle(batch.id)
    assert (world.committed(), world.published()) == (2, [(0, 2)])


def test_a_commit_whose_answer_is_lost_is_found_by_the_next() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = acks([0], [1])
    world.offsets.lose_answer(carried_out=True)
    world.pipeline(**THROTTLED).process(batch.id)
    assert partial_commits(world, batch) == [1, 2]


@pytest.mark.parametrize("definition", [THROTTLED, LATEST])
def test_a_group_that_was_moved_stops_the_job_and_is_honoured(definition: dict[str, Any]) -> None:
    world = World()
    pipeline, batch = world.pipeline(**definition), landed(world, **definition)
    world.processor.acks = acks([0], [1], [2])
    moved = Disturbed(OffsetStore.fence, lambda: world.offsets.reset({P0: 3}))
    with pytest.raises(StaleError, match="stands at 3 without a receipt of ours"):
        watched(pipeline, moved).process(batch.id)
    assert len(world.lake.acks) == 1
    world.processor.acks = None
    following = planned(pipeline)
    assert following is not None
    assert (following.id != batch.id, following.ranges[0].start) == (True, 3)
    assert world.ledger.batch(batch.id).outcome is Outcome.ABANDONED


def test_a_group_that_was_moved_before_the_delivery_costs_none() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.offsets.reset({P0: 3})
    with pytest.raises(StaleError, match="moved by somebody"):
        world.pipeline(**THROTTLED).process(batch.id)
    assert world.ledger.deliveries(batch.id) == 0


def test_a_delivery_that_another_one_followed_commits_nothing_more() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = acks([0], [1])

    def another() -> None:
        world.ledger.start_delivery(batch.id)

    with pytest.raises(StaleError, match="no more delivery 1's"):
        watched(world.pipeline(**THROTTLED), Disturbed(OffsetStore.fence, another)).process(batch.id)
    assert partial_commits(world, batch) == []


def test_a_delivery_that_another_one_followed_takes_no_fence_from_it() -> None:
    world = World()
    batch = landed(world, **THROTTLED)
    world.processor.acks = acks([0])
    told: list[Effect] = []
    another = Disturbed(StagedOutput.ack_files, lambda: world.ledger.start_delivery(batch.id))
    with pytest.raises(StaleError, match="no more delivery 1's"):
        watched(watched(world.pipeline(**THROTTLED), another), Listener(told)).process(batch.id)
    assert Effect.of(OffsetStore.fence) not in told


# Lost ledgers, and crashes


def test_with_the_ledger_lost_in_between_the_batch_goes_on_under_its_id() -> None:
    world = World()
    batch = landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1, 2])
    fails(world, batch, **THROTTLED)
    fresh = replace_ledger(world)
    world.processor.acks = None
    again = planned(fresh)
    assert again is not None
    assert (again.id, again.ranges[0].start) == (batch.id, 3)
    fresh.process(again.id)
    fresh.settle(again.id)
    assert (world.published(), world.committed()) == ([(3, 6)], 6)


@pytest.mark.parametrize("definition", [THROTTLED, LATEST])
def test_a_batch_that_was_planned_again_commits_nothing_before_it_has_landed(definition: dict[str, Any]) -> None:
    """What an earlier delivery under its id acknowledged says nothing of records that nobody has read yet."""
    world = World()
    batch = landed(world, 6, **definition)
    world.processor.acks = unseen([0])
    dies(world, batch, **definition)
    world.ledger = World(topic=None).ledger
    world.produce(4)
    pipeline = world.pipeline(**definition)
    again = pipeline.plan().batch
    assert again is not None
    assert (again.id, again.state) == (batch.id, State.PLANNED)
    with pytest.raises(BatchFailedError, match="the batch hasn't landed: nothing of it is processed"):
        pipeline.process(batch.id)
    assert world.committed() == 0


@pytest.mark.parametrize("done", [[0, 1, 2], range(6)])
def test_with_the_ledger_lost_after_the_publish_the_commit_is_finished(done: Collection[int]) -> None:
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = acks(done)
    pipeline.process(batch.id)
    with pytest.raises(UnavailableError):
        watched(pipeline, Disturbed(Fence.commit, away)).settle(batch.id)
    fresh = replace_ledger(world)
    again = fresh.plan().batch
    assert again is not None
    assert again.id == batch.id
    fresh.process(again.id)
    fresh.settle(again.id)
    assert (world.published(), world.committed()) == ([(0, len(done))], len(done))
    assert world.offsets.positions[P0].metadata == str(batch.next_receipt)


def test_a_position_behind_a_published_end_is_taken_back_to_it() -> None:
    """A delivery whose ledger was lost has published, after another one committed more of the same batch."""
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1])
    pipeline.process(batch.id)
    world.offsets.reset({P0: 5}, str(batch.receipt))
    pipeline.settle(batch.id)
    assert (world.published(), world.committed()) == ([(0, 2)], 2)


def test_a_group_that_an_old_delivery_moved_back_goes_forward_again() -> None:
    """Without a fence nothing keeps a delivery that slept from committing once more."""
    world = World()
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    world.offsets.reset({P0: 3}, str(batch.receipt))
    assert pipeline.plan().batch is None
    assert world.committed() == 6
    assert world.offsets.positions[P0].metadata == str(batch.next_receipt)


def test_what_was_published_of_a_partition_that_nobody_moved_isnt_delivered_again() -> None:
    world = World(partitions=2)
    world.produce(3, partition=1)
    pipeline, batch = world.pipeline(**THROTTLED), landed(world, 6, **THROTTLED)
    world.processor.acks = [Acks({P0: [0, 1]}), Acks({P0: range(2, 6), P1: range(3)}, 1)]
    pipeline.process(batch.id)
    with pytest.raises(UnavailableError):
        watched(pipeline, Disturbed(Fence.commit, away)).settle(batch.id)
    assert (world.committed(0), world.committed(1)) == (2, 0)
    world.offsets.reset({P1: 1})
    world.processor.acks = None
    following = planned(pipeline)
    assert following is not None
    assert [(r.start, r.end) for r in following.ranges] == [(6, 6), (1, 3)]


def replace_ledger(world: World) -> Pipeline:
    fresh = World(topic=None)
    world.ledger = fresh.ledger
    return world.pipeline(**THROTTLED)


class Kill(BaseException):
    """The process is gone."""


class Killer:
    """Ends the process before or after its nth effect."""

    def __init__(self, number: int) -> None:
        self.left = number

    def before(self, effect: Effect) -> None:  # noqa: ARG002 (the watcher's)
        self._count()

    def after(self, effect: Effect) -> None:  # noqa: ARG002 (the watcher's)
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left <= 0:  # nothing that is unwound does anything any more
            raise Kill


def one_run(pipeline: Pipeline) -> None:
    batch = planned(pipeline)
    if batch is not None:
        pipeline.process(batch.id)
        pipeline.settle(batch.id)


STEPS = [[0, 2], [1], [5], [3]]
SEEN = {"throttled": {0, 1, 2, 3}, "latest": {0, 1, 2, 3, 5}}


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["throttled", "latest"])
def test_killed_at_any_effect_the_next_run_goes_on_and_skips_only_what_was_acknowledged(strategy: Any) -> None:
    number = 0
    while True:
        number += 1
        world = World()
        world.produce(6)
        pipeline = world.pipeline(commit_strategy=strategy)
        world.processor.acks = acks(*STEPS)
        try:
            one_run(watched(pipeline, Killer(number)))
        except Kill:
            pass
        else:
            break
        committed = world.committed() or 0
        passed = set(range(committed))
        assert passed <= SEEN[strategy] | ({4} if strategy == "latest" else set()), number
        world.processor.acks = None
        deadline = 6
        while world.committed() != 6 or world.ledger.look("orders").open is not None:
            deadline -= 1
            assert deadline, f"killed at effect {number}, the group stands at {world.committed()}"
            with suppress(TidegateError):
                one_run(pipeline)
        last = world.processor.delivered[-1]
        handed = {
            offset
            for manifest in world.processor.delivered
            for r in manifest.batch.ranges
            for offset in range(r.start, r.end)
        }
        assert handed == set(range(6)), number
        assert last.batch.ranges[0].end == 6
        assert Receipt.parse(world.offsets.positions[P0].metadata), number
    assert number > 100


def test_the_ranges_that_a_job_is_handed_are_in_its_manifest() -> None:
    world = World()
    batch = landed(world, 6, **THROTTLED)
    world.processor.acks = acks([0, 1])
    fails(world, batch, **THROTTLED)
    handed = world.processor.delivered[0].batch
    assert handed == replace(batch, state=handed.state, delivery=handed.delivery)
