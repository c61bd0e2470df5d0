"""When each commit strategy commits, and what it makes of a run that failed, was late, or died."""

from typing import Any

import pytest
from world import Before, Crash, World, planned

from tidegate.model.batch import Batch, Outcome, Resolution, State
from tidegate.model.errors import BatchFailedError, DeliveryTimeoutError, StaleError, StoppedError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Cursor, TopicPartitions
from tidegate.ports import Ledger
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import Run, run_batch
from tidegate.testing.effects import watched

P0 = TopicPartition("orders", 0)


def run(pipeline: Pipeline) -> Run:
    return run_batch(pipeline, lambda _: None)


def done(pipeline: Pipeline) -> Batch:
    """One run that ends well."""
    ended = run(pipeline)
    assert ended.error is None
    assert ended.batch is not None
    return ended.batch


def world_with(records: int, **definition: Any) -> tuple[World, Pipeline]:
    world = World()
    world.produce(records)
    return world, world.pipeline(poll_timeout_ms=1, **definition)


# on-receipt: committed once landed, whatever becomes of it then


def test_on_receipt_commits_before_it_processes() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError, match="offsets aren't committed yet"):
        pipeline.process(batch.id)
    received = pipeline.receive(batch.id)
    assert received is not None
    assert (received.state, received.offsets_committed, world.committed(), world.published()) == (
        State.LANDED,
        True,
        5,
        [],
    )
    pipeline.process(batch.id)
    published = pipeline.settle(batch.id)
    assert published is not None
    assert (published.condition, world.published()) == (Outcome.COMMITTED, [(0, 5)])
    assert list(run(pipeline).seconds) == ["plan"]
    world.produce(1)
    assert list(run(pipeline).seconds) == ["plan", "land", "commit", "process", "publish"]


def test_on_receipt_stays_committed_when_spark_fails_and_the_landed_batch_is_processed_later() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    world.processor.failures.append("no memory")
    assert isinstance(run(pipeline).error, BatchFailedError)
    assert (world.committed(), world.published()) == (5, [])
    landed = set(world.landing.files)
    world.produce(2)
    batch = done(pipeline)
    assert ([(r.start, r.end) for r in batch.ranges], world.published()) == ([(0, 5)], [(0, 5)])
    assert set(world.landing.files) == landed
    assert done(pipeline).outcome is Outcome.COMMITTED
    assert (world.published(), world.committed()) == ([(0, 5), (5, 7)], 7)


def test_on_receipt_an_overrun_goes_on() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    world.processor.seconds = 10_000
    assert done(pipeline).outcome is Outcome.COMMITTED
    late, other = world_with(5)
    late.processor.seconds = 10_000
    assert isinstance(run(other).error, DeliveryTimeoutError)


def test_on_receipt_whoever_moves_the_group_afterwards_does_not_take_the_batch_away() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    world.processor.failures.append("no memory")
    run(pipeline)
    world.offsets.reset({P0: 2})
    assert done(pipeline).outcome is Outcome.COMMITTED
    again = done(pipeline)
    assert ([(r.start, r.end) for r in again.ranges], world.published()) == ([(2, 5)], [(0, 5), (2, 5)])


def test_on_receipt_a_group_moved_before_the_commit_abandons_the_batch() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    batch = planned(pipeline)
    assert batch is not None
    world.offsets.reset({P0: 2})
    with pytest.raises(StaleError, match="moved by somebody else"):
        pipeline.receive(batch.id)
    assert done(pipeline).id != batch.id
    assert world.published() == [(2, 5)]


@pytest.mark.parametrize("carried_out", [True, False])
def test_on_receipt_a_lost_answer_is_found_out_by_the_next_run(carried_out: bool) -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    batch = planned(pipeline)
    assert batch is not None
    world.offsets.lose_answer(carried_out=carried_out)
    assert run(pipeline).error is not None
    assert done(pipeline).id == batch.id
    assert (world.published(), world.committed()) == ([(0, 5)], 5)


def test_on_receipt_stops_at_the_limit_with_its_offsets_committed() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt", max_retries=0)
    world.processor.failures.append("no memory")
    assert isinstance(run(pipeline).error, StoppedError)
    assert isinstance(run(pipeline).error, StoppedError)
    pipeline.clear("ada", "")
    assert done(pipeline).outcome is Outcome.COMMITTED
    assert (world.published(), world.committed()) == ([(0, 5)], 5)


def test_on_receipt_a_person_closes_a_batch_whose_run_ended_once_it_was_published() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    with pytest.raises(Crash):
        run(watched(pipeline, Before(Ledger.close)))
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert (batch.state, batch.offsets_committed) == (State.PUBLISHED, True)
    assert pipeline.commit_open().outcome is Outcome.COMMITTED
    assert world.ledger.look("orders").open is None


def test_on_receipt_a_person_closes_a_batch_that_was_given_up_before_its_commit() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    batch = planned(pipeline)
    assert batch is not None
    pipeline.clear("ada", "", Resolution.SKIP)
    assert pipeline.commit_open().outcome is Outcome.IGNORED
    assert (world.committed(), world.published(), world.ledger.look("orders").open) == (5, [], None)


def test_on_receipt_a_person_closes_a_batch_only_with_its_dead_letters() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt", failure_strategy="dead-letter-queue")
    world.topics.create("dead-letter-topic-orders")
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(Crash):
        watched(pipeline, Before(Ledger.received)).receive(batch.id)
    pipeline.clear("ada", "", Resolution.DEAD_LETTER)
    assert pipeline.commit_open().outcome is Outcome.DEAD_LETTERED
    assert len(world.kafka.produced) == 5


def test_on_receipt_gives_up_without_another_commit() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt", max_retries=0, failure_strategy="ignore")
    world.processor.failures.append("no memory")
    batch = run(pipeline).batch
    assert batch is not None
    assert (batch.condition, batch.offsets_committed, world.published()) == (Outcome.IGNORED, True, [])
    assert len([offsets for offsets, _ in world.offsets.commits if offsets]) == 2  # the anchor and the receipt


# on-next-poll: the next plan commits what the last one read


def test_the_next_poll_commits_what_was_read_before() -> None:
    world, pipeline = world_with(100, commit_strategy="on-next-poll")
    first = done(pipeline)
    assert (first.state, world.committed(), world.published()) == (State.PUBLISHED, 0, [(0, 100)])
    world.produce(100)
    second = planned(pipeline)
    assert second is not None
    assert (world.committed(), pipeline.ledger.batch(first.id).condition) == (100, Outcome.COMMITTED)
    again = done(pipeline)  # A died: its batch is delivered again
    assert (again.id, world.committed(), world.published()) == (second.id, 100, [(0, 100), (100, 200)])
    assert run(pipeline).batch is None
    assert world.committed() == 200


def test_on_next_poll_what_was_not_published_is_delivered_again_and_not_committed() -> None:
    world, pipeline = world_with(5, commit_strategy="on-next-poll")
    world.processor.failures.append("no memory")
    failed = run(pipeline)
    assert isinstance(failed.error, BatchFailedError)
    assert world.committed() == 0
    again = done(pipeline)
    assert failed.batch is not None
    assert (again.id, again.state, world.committed()) == (failed.batch.id, State.PUBLISHED, 0)


# manual: somebody commits


def test_a_published_batch_waits_for_its_commit_and_no_other_is_planned() -> None:
    world, pipeline = world_with(5, commit_strategy="manual")
    batch = done(pipeline)
    world.produce(3)
    waiting = run(pipeline)
    assert (waiting.batch, waiting.error) == (None, None)
    assert "waits for `tidegate commit orders`" in waiting.why
    assert (world.committed(), world.published()) == (0, [(0, 5)])
    assert pipeline.commit_open().outcome is Outcome.COMMITTED
    assert world.committed() == 5
    with pytest.raises(StaleError, match="nothing waits for a commit, no batch is open"):
        pipeline.commit_open()
    assert [(r.start, r.end) for r in done(pipeline).ranges] == [(5, 8)]
    assert pipeline.ledger.batch(batch.id).outcome is Outcome.COMMITTED


def test_what_is_not_published_can_not_be_committed_by_hand() -> None:
    world, pipeline = world_with(5, commit_strategy="manual")
    planned(pipeline)
    with pytest.raises(StaleError, match="is landed: nothing was committed"):
        pipeline.commit_open()
    assert world.committed() == 0


def test_a_commit_by_hand_is_fenced_like_any_other() -> None:
    world, pipeline = world_with(5, commit_strategy="manual")
    done(pipeline)
    world.offsets.reset({P0: 3})
    with pytest.raises(StaleError, match="moved by somebody else"):
        pipeline.commit_open()
    assert world.committed() == 3


def test_a_ledger_that_was_lost_after_the_publish_still_waits_for_the_commit() -> None:
    world, pipeline = world_with(5, commit_strategy="manual")
    done(pipeline)
    world.lose_ledger()
    pipeline = world.pipeline(poll_timeout_ms=1, commit_strategy="manual")
    assert "waits for" in run(pipeline).why
    assert pipeline.commit_open().outcome is Outcome.COMMITTED
    assert (world.committed(), world.published()) == (5, [(0, 5)])


# ignore: each run from the cursor, and nothing is ever committed


CURSOR = Cursor("AT_OFFSET", offset=2)
STARTS = [{"cursor": CURSOR}, {"topics": TopicPartitions({"orders": (0,)}, {"orders": {0: CURSOR}})}]


@pytest.mark.parametrize("start", STARTS, ids=["the subscription's", "the partition's own"])
def test_each_run_starts_from_the_cursor_and_publishes_its_own_batch(start: dict[str, Any]) -> None:
    world = World()
    world.produce(5)
    world.offsets.reset({P0: 4})  # what somebody committed means nothing here
    ids = set()
    for _ in range(2):
        world.offsets_of_ignore()
        batch = done(world.pipeline(commit_strategy="ignore", **start))
        ids.add(batch.id)
        assert (batch.condition, batch.offsets_committed) == (Outcome.UNCOMMITTED, False)
    assert (len(ids), world.published()) == (2, [(2, 5), (2, 5)])
    assert world.kafka.positions[P0].offset == 4
    assert world.kafka.commits == []


def test_a_run_that_died_goes_on_with_its_batch() -> None:
    world = World()
    world.produce(5)
    world.offsets_of_ignore()
    world.processor.failures.append("no memory")
    failed = run(world.pipeline(commit_strategy="ignore"))
    world.offsets_of_ignore()
    again = done(world.pipeline(commit_strategy="ignore"))
    assert failed.batch is not None
    assert (again.id, world.published()) == (failed.batch.id, [(0, 5)])


def test_after_ignore_another_strategy_does_not_take_its_ends_for_committed() -> None:
    world = World()
    world.produce(5)
    world.offsets_of_ignore()
    done(world.pipeline(commit_strategy="ignore"))
    world.offsets = world.kafka
    assert [(r.start, r.end) for r in done(world.pipeline()).ranges] == [(0, 5)]


# any strategy


@pytest.mark.parametrize("before", ["after-processing", "on-receipt", "on-next-poll", "manual"])
@pytest.mark.parametrize("after", ["after-processing", "on-receipt", "on-next-poll", "manual"])
def test_an_open_batch_keeps_the_strategy_of_its_plan(before: Any, after: Any) -> None:
    world, pipeline = world_with(5, commit_strategy=before)
    world.processor.failures.append("no memory")
    failed = run(pipeline).batch
    assert failed is not None
    changed = world.pipeline(poll_timeout_ms=1, commit_strategy=after)
    batch = done(changed)
    assert (batch.id, batch.commit_strategy, world.published()) == (failed.id, before, [(0, 5)])
    if before == "manual":
        changed.commit_open()
    world.produce(2)
    assert done(changed).commit_strategy == after
    assert world.published() == [(0, 5), (5, 7)]


def test_a_batch_on_receipt_is_not_committed_to_another_store() -> None:
    world, pipeline = world_with(5, commit_strategy="on-receipt")
    batch = planned(pipeline)
    assert batch is not None
    changed = world.pipeline(commit_strategy="checkpoint")
    with pytest.raises(WrongDefinitionError, match="was planned with commit-strategy: on-receipt"):
        changed.receive(batch.id)
    assert world.committed() == 0


def test_a_batch_that_waits_for_a_person_says_that_a_person_commits_it() -> None:
    world, by_hand = world_with(5, commit_strategy="manual")
    elsewhere = world.pipeline(commit_strategy="checkpoint")
    assert planned(by_hand) is not None
    with pytest.raises(WrongDefinitionError, match=r"set manual again .*: run it, then `tidegate commit orders`"):
        elsewhere.plan()
    done(by_hand)
    with pytest.raises(WrongDefinitionError, match=r"set manual again .*: `tidegate commit orders` commits it, or"):
        elsewhere.plan()
    with pytest.raises(StaleError, match=r"nothing was cleared \(.*\); `tidegate commit orders` commits it$"):
        by_hand.clear("ada", "")
    assert by_hand.commit_open().outcome is Outcome.COMMITTED
