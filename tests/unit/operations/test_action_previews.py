"""What an action would do is said in offsets and records, nothing of it is done, and its digest tells it again."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Cause, Resolution
from tidegate.model.errors import BatchFailedError, GroupInUseError, StaleError, StoppedError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.operations.actions.clearing import preview_clear
from tidegate.operations.actions.committing import preview_commit
from tidegate.operations.actions.preview import ActionPreview
from tidegate.operations.actions.replaying import preview_of_replay, replay_request
from tidegate.operations.actions.resetting import preview_reset, reset_request
from tidegate.operations.actions.running import preview_drain, preview_run
from tidegate.runtime.pipeline import Pipeline

HOME = Path("/home/orders")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def stopped(world: World, count: int = 5, **definition: Any) -> Pipeline:
    """A pipeline whose batch of so many records failed as often as it may."""
    world.produce(count)
    pipeline = world.pipeline(max_retries=0, **definition)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    with pytest.raises(StoppedError):
        pipeline.settle(batch.id)
    return pipeline


def delivered(world: World, *counts: int) -> Pipeline:
    pipeline = world.pipeline()
    for partition, count in enumerate(counts):
        world.produce(count, partition)
    while deliver(pipeline) is not None:
        pass
    return pipeline


def reset(pipeline: Pipeline, **params: Any) -> ActionPreview:
    return preview_reset(pipeline, reset_request(pipeline, params, "ada"))


def replay(pipeline: Pipeline, start: str, end: str, output: str = "again") -> ActionPreview:
    request = replay_request(start, end, output, "ada")
    return preview_of_replay(pipeline, start, end, request, HOME)


def rows(preview: ActionPreview) -> list[tuple[str, int | None, int, int, str]]:
    return [(str(each.at), each.start, each.end, each.count, each.effect) for each in preview.partitions]


@pytest.mark.parametrize(
    ("answer", "effect"),
    [
        (Resolution.REDELIVER, "delivered again"),
        (Resolution.DEAD_LETTER, "to the dead-letter topic"),
        (Resolution.SKIP, "ignored"),
        (Resolution.STOP, "stays"),
    ],
)
def test_a_clear_has_the_batchs_ranges_and_records(answer: Resolution, effect: str) -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders")
    seen = preview_clear(stopped(world), answer)
    assert rows(seen) == [("orders-0", 0, 5, 5, effect)]
    assert (seen.total, seen.counted) == (5, "records")


@pytest.mark.parametrize(
    ("answer", "effect"),
    [
        (Resolution.REDELIVER, "read"),
        (Resolution.DEAD_LETTER, "to the dead-letter topic"),
        (Resolution.SKIP, "ignored"),
    ],
)
@pytest.mark.parametrize("previewed", [preview_run, partial(preview_drain, runs=None)])
def test_a_run_after_an_answer_says_of_each_partition_what_the_answer_does(
    previewed: Callable[[Pipeline], ActionPreview], answer: Resolution, effect: str
) -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders")
    pipeline = stopped(world)
    pipeline.clear("ada", "", answer)
    assert rows(previewed(pipeline)) == [("orders-0", 0, 5, 5, effect)]


def test_a_run_that_sends_a_batch_to_a_retry_topic_says_so() -> None:
    world = World()
    for topic in ("dead-letter-topic-orders", "orders_retry_10000", "orders_retry_20000", "orders_retry_50000"):
        world.topics.create(topic)
    pipeline = world.pipeline(failure_strategy="delayed-retry-topic", max_retries=0)
    world.produce(5)
    batch = planned(pipeline)
    assert batch is not None
    world.ledger.failed(batch.id, world.ledger.start_delivery(batch.id), "no", Cause.RECORDS)
    world.ledger.resolve(batch.id, Resolution.RETRY_LATER)
    assert rows(preview_run(pipeline)) == [("orders-0", 0, 5, 5, "to a retry topic")]


def test_an_answer_whose_topic_is_missing_has_no_preview() -> None:
    with pytest.raises(WrongDefinitionError, match="dead-letter-topic-orders isn't there: nothing was cleared"):
        preview_clear(stopped(World()), Resolution.DEAD_LETTER)


def test_what_waits_for_a_commit_by_hand_says_so() -> None:
    seen = preview_clear(stopped(World(), commit_strategy="manual"), Resolution.SKIP)
    assert seen.consequences == ("The subscription goes on after it once `tidegate commit orders` has committed it.",)


def test_a_commit_has_the_positions_and_the_ends() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="manual")
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    seen = preview_commit(pipeline)
    assert rows(seen) == [("orders-0", 0, 5, 5, "committed")]
    assert world.committed() == 0


def test_a_commit_of_a_group_that_somebody_moved_is_refused() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="manual")
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    world.kafka.reset({P0: 2})
    with pytest.raises(StaleError, match="nothing is committed, the next run abandons the batch"):
        preview_commit(pipeline)


@pytest.mark.parametrize(("retries", "times"), [(0, "once"), (2, "up to 3 times")])
def test_a_redelivery_says_how_often(retries: int, times: str) -> None:
    world = World()
    stopped(world)
    seen = preview_clear(world.pipeline(max_retries=retries), Resolution.REDELIVER)
    assert seen.consequences == (f"It is delivered {times}. Correct the cause first.",)


def test_a_reset_says_what_is_read_again_and_what_is_passed_over() -> None:
    world = World(2)
    pipeline = delivered(world, 5, 3)
    world.produce(4, 1)
    seen = reset(pipeline, offsets="orders,0,2\norders,1,6")
    assert rows(seen) == [("orders-0", 5, 2, 3, "read again"), ("orders-1", 3, 6, 3, "passed over")]
    assert seen.summary == "2 positions of 2 move: 3 offsets are read again and 3 offsets are passed over unread."


def test_a_reset_of_a_group_without_a_position_counts_what_it_passes_over() -> None:
    world = World()
    world.produce(4)
    seen = reset(world.pipeline(), to="latest")
    assert rows(seen) == [("orders-0", None, 4, 4, "passed over")]
    assert seen.summary == "1 position of 1 moves: 4 offsets are passed over unread."
    assert rows(reset(world.pipeline(), to="earliest")) == [("orders-0", None, 0, 0, "gets a position")]


def test_a_reset_that_gives_a_batch_up_counts_what_of_it_is_read_again() -> None:
    pipeline = stopped(World(2))
    seen = reset(pipeline, by=0, abandon=True)
    assert rows(seen) == [
        ("orders-0", 0, 0, 5, "stays, and the batch is read again"),
        ("orders-1", 0, 0, 0, "stays"),
    ]
    assert seen.summary == "0 positions of 2 move: 5 offsets are read again."
    assert seen.consequences[-1] == "5 offsets of it are read again, in another batch."
    assert seen.total == 5
    in_part = reset(pipeline, offsets="orders,0,3\norders,1,0", abandon=True)
    assert in_part.summary == "1 position of 2 moves: 2 offsets are read again and 3 offsets are passed over unread."
    others = reset(pipeline, offsets="orders,1,0", abandon=True)
    assert others.summary == "0 positions of 1 move: 5 offsets are read again."


def test_its_params_are_the_offsets_that_were_shown_and_come_to_the_same() -> None:
    world = World()
    pipeline = delivered(world, 5)
    world.produce(2)
    seen = reset(pipeline, to="latest")
    world.produce(7)
    again = reset(pipeline, **seen.params)
    assert (again.digest, dict(again.params)) == (
        seen.digest,
        {"offsets": "orders,0,7", "abandon": False, "note": None},
    )
    again.check(seen.digest)
    again.check(None)


def test_a_reset_that_moves_nothing_is_refused() -> None:
    with pytest.raises(StaleError, match="the group stands there already"):
        reset(delivered(World(), 5), to="latest")


def test_a_reset_is_refused_while_the_group_has_live_members() -> None:
    world = World()
    pipeline = delivered(world, 5)
    world.kafka.join("somebody")
    with pytest.raises(GroupInUseError, match="the group has live members: somebody"):
        reset(pipeline, to="earliest")


def test_a_replay_is_fixed_by_the_offsets_that_were_shown() -> None:
    world = World(2)
    pipeline = delivered(world, 5, 3)
    seen = replay(pipeline, "earliest", "latest")
    world.produce(9)
    again = replay(pipeline, seen.params["from"], seen.params["to"])
    assert rows(again) == [("orders-0", 0, 5, 5, "read once more"), ("orders-1", 0, 3, 3, "read once more")]
    assert again.digest == seen.digest
    assert world.ledger.replays("orders") == ()


def test_a_replay_says_where_its_output_lies() -> None:
    preview = replay(delivered(World(), 5), "earliest", "latest", "../again")
    assert "through the transform into file:///home/again" in preview.summary
    assert preview.params["output"] == "../again"


def test_a_replay_without_an_output_is_refused() -> None:
    with pytest.raises(WrongDefinitionError, match="a replay needs an output"):
        replay(delivered(World(), 5), "earliest", "latest", " ")


def test_one_run_takes_what_the_next_plan_would() -> None:
    world = World()
    world.produce(5)
    seen = preview_run(world.pipeline())
    assert seen.summary == "One run is triggered: a new batch takes 5 offsets."
    assert rows(seen) == [("orders-0", 0, 5, 5, "read")]
    assert "orders-0" not in str(world.kafka.positions)
    world = World()
    world.produce(1)
    assert preview_run(world.pipeline()).summary == "One run is triggered: a new batch takes 1 offset."


def test_a_first_run_says_how_much_it_does_not_read() -> None:
    world = World()
    world.produce(5)
    seen = preview_run(world.pipeline(consumer={"auto_offset_reset": "latest"}))
    assert seen.consequences == ("5 offsets are before where it begins, and not read.",)


@pytest.mark.parametrize(("waiting", "runs"), [(0, 1), (1, 1), (10, 1), (11, 2), (95, 10), (995, 20)])
def test_a_drain_takes_as_many_runs_as_batches_wait(waiting: int, runs: int) -> None:
    world = World()
    world.produce(waiting)
    seen = preview_drain(world.pipeline(consumer={"max_poll_records": 10}), None)
    assert seen.params == {"runs": runs}


@pytest.mark.parametrize("runs", [-3, 0, 21])
def test_a_drain_of_more_runs_than_are_begun_at_once_or_of_none_is_refused(runs: int) -> None:
    with pytest.raises(WrongDefinitionError, match="runs must be from 1 to 20"):
        preview_drain(World().pipeline(), runs)


def test_a_drain_counts_the_open_batch_as_a_run() -> None:
    world = World()
    world.produce(10)
    pipeline = world.pipeline(consumer={"max_poll_records": 10})
    assert planned(pipeline) is not None
    world.produce(15)
    assert preview_drain(pipeline, None).params == {"runs": 3}
    assert preview_drain(pipeline, 2).params == {"runs": 2}


def test_what_arrives_makes_no_run_or_drain_another_one_and_a_move_does() -> None:
    world = World()
    pipeline = delivered(world, 5)
    world.produce(3)
    run, drain = preview_run(pipeline).digest, preview_drain(pipeline, None)
    world.produce(3)
    assert preview_run(pipeline).digest == run
    assert preview_drain(pipeline, drain.params["runs"]).digest == drain.digest
    deliver(pipeline)
    world.produce(1)
    with pytest.raises(StaleError, match="what was previewed isn't so any more: nothing was done"):
        preview_run(pipeline).check(run)


Change = Callable[[ActionPreview], ActionPreview]


@pytest.mark.parametrize(
    "change",
    [
        lambda seen: replace(seen, params={**seen.params, "answer": "stop"}),
        lambda seen: replace(seen, params={**seen.params, "note": "x"}),
        lambda seen: replace(seen, facts={**seen.facts, "deliveries": 9}),
        lambda seen: replace(seen, subscription="sales"),
        lambda seen: replace(seen, action="commit"),
    ],
)
def test_whatever_differs_makes_another_digest(change: Change) -> None:
    seen = preview_clear(stopped(World()), Resolution.SKIP)
    assert change(seen).digest != seen.digest
    with pytest.raises(StaleError):
        change(seen).check(seen.digest)
