"""A preview says what the next plan does, and changes nothing: whatever happened before."""

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World, deliver, planned

from tidegate.model.batch import Batch, Cause, Outcome, Resolution
from tidegate.model.commit_policy import COMMIT_POLICIES
from tidegate.model.errors import GroupInUseError, LostDataError, StoppedError, TidegateError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import TopicNames
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.preview import KNOWN_LATER, Start
from tidegate.testing.definitions import MemoryDefinitions

Act = Callable[[World, Pipeline], object]
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def moved(partition: int, offset: int) -> Act:
    return lambda world, _: world.kafka.reset({TopicPartition("orders", partition): offset})


def again(world: World, _: Pipeline) -> None:
    world.topics.delete("orders")
    world.topics.create("orders", 2)
    world.kafka.forget("orders")


ACTS: Mapping[str, Act] = {
    "produce": lambda world, _: world.produce(3),
    "produce to another partition": lambda world, _: world.produce(2, partition=1),
    "run": lambda _, pipeline: deliver(pipeline),
    "plan and land": lambda _, pipeline: planned(pipeline),
    "process": lambda _, pipeline: (batch := planned(pipeline)) and pipeline.process(batch.id),
    "publish": lambda _, pipeline: (
        (batch := planned(pipeline)) and (pipeline.process(batch.id) and pipeline.settle(batch.id))
    ),
    "commit by hand": lambda _, pipeline: pipeline.commit_open(),
    "move back": moved(0, 0),
    "move on": moved(1, 2),
    "add a partition": lambda world, _: world.topics.add_partitions("orders", 1),
    "create the topic again": again,
    "let records expire": lambda world, _: (world.produce(3), world.topics.expire("orders", 2)),
    "let positions expire": lambda world, _: world.kafka.expire(),
    "lose the ledger": lambda world, _: world.lose_ledger(),
}


def outside(world: World) -> Any:
    """All that a run could change."""
    ledger = vars(world.ledger)
    noted = {name: _present(value) for name, value in ledger.items() if name not in ("_now", "_lock")}
    return copy.deepcopy((noted, world.kafka.positions, world.lake.published_attempts))


def _present(value: Any) -> Any:
    """Without what was only asked for."""
    return {key: each for key, each in value.items() if each} if isinstance(value, dict) else value


def of(batch: Batch) -> Any:
    return (batch.ranges, batch.condition, batch.output, batch.commit_strategy)


@given(
    acts=st.lists(st.sampled_from(sorted(ACTS)), max_size=7),
    strategy=st.sampled_from(sorted(set(COMMIT_POLICIES) - {"checkpoint", "ignore"})),
    on_data_loss=st.sampled_from(["fail", "reset"]),
    reset=st.sampled_from(["earliest", "latest", "none"]),
    most=st.sampled_from([2, 500]),
)
def test_the_next_plan_does_what_was_previewed(
    acts: list[str], strategy: Any, on_data_loss: Any, reset: Any, most: int
) -> None:
    world = World(partitions=2)
    consumer = {"auto_offset_reset": reset, "max_poll_records": most}

    def pipeline() -> Pipeline:
        return world.pipeline(commit_strategy=strategy, on_data_loss=on_data_loss, consumer=consumer, poll_timeout_ms=0)

    for act in acts:
        with suppress(TidegateError):
            ACTS[act](world, pipeline())
    before = outside(world)
    try:
        seen = pipeline().preview()
    except TidegateError as error:
        assert outside(world) == before
        with pytest.raises(type(error)):
            pipeline().plan()
        return
    assert outside(world) == before
    if seen.why == KNOWN_LATER:
        return
    plan = pipeline().plan()
    assert (seen.batch is None) == (plan.batch is None)
    if seen.batch is not None and plan.batch is not None:
        assert of(plan.batch) == of(seen.batch)
    for start in seen.starts:
        assert world.committed(start.at.partition) == start.offset


def test_a_group_on_first_contact_says_where_it_would_begin() -> None:
    world = World(partitions=2)
    world.produce(5)
    seen = world.pipeline(consumer={"max_poll_records": 3}).preview()
    assert seen.starts == (Start(P0, None, 0, "first contact"), Start(P1, None, 0, "first contact"))
    assert seen.batch is not None
    assert [(r.partition, r.start, r.end) for r in seen.batch.ranges] == [(0, 0, 3), (1, 0, 0)]
    assert (seen.waiting, seen.is_open) == (5, False)


def test_a_first_batch_says_how_many_records_before_its_start_are_not_read() -> None:
    world = World(partitions=2)
    world.produce(5)
    world.produce(3, partition=1)
    world.topics.expire("orders", 2)
    latest = world.pipeline(consumer={"auto_offset_reset": "latest"}).preview()
    assert (latest.unread_before, latest.skipped) == (6, 0)
    assert world.pipeline(consumer={"auto_offset_reset": "earliest"}).preview().unread_before == 0
    deliver(world.pipeline(consumer={"auto_offset_reset": "latest"}))
    assert world.pipeline(consumer={"auto_offset_reset": "latest"}).preview().unread_before == 0


def test_a_group_that_another_consumer_has_read_for_goes_on_there_and_has_left_nothing_unread() -> None:
    world = World(partitions=2)
    world.produce(5)
    world.kafka.reset({P0: 3})
    seen = world.pipeline().preview()
    why = "first contact: the group goes on where another consumer has committed"
    assert seen.starts == (Start(P0, None, 3, why), Start(P1, None, 0, why))
    assert (seen.unread_before, seen.earlier) == (0, "")


@pytest.mark.parametrize(("stands", "skipped", "reread"), [(6, 4, 0), (1, 0, 1), (2, 0, 0)])
def test_what_is_passed_over_or_comes_again_is_said_before_an_open_batch_is_abandoned(
    stands: int, skipped: int, reread: int
) -> None:
    world = World()
    world.produce(2)
    deliver(world.pipeline())
    world.produce(8)
    batch = planned(world.pipeline())
    assert batch is not None
    world.pipeline().process(batch.id)
    world.kafka.reset({P0: stands})
    seen = world.pipeline().preview()
    assert "is abandoned: the group was moved by somebody else" in seen.first[0]
    assert (seen.skipped, seen.reread) == (skipped, reread)


def test_a_batch_that_stopped_is_refused_as_plan_refuses_it() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    world.ledger.failed(batch.id, world.ledger.start_delivery(batch.id), "no", Cause.RECORDS)
    world.ledger.resolve(batch.id, Resolution.STOP)
    with pytest.raises(StoppedError):
        world.pipeline().preview()


def test_a_group_of_another_subscription_is_refused_and_noted_as_nobodys() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    both = MemoryDefinitions({"orders": "orders-lake", "copy": "orders-lake"})
    with pytest.raises(WrongDefinitionError, match="group orders-lake is subscription orders's"):
        replace(world.pipeline(name="copy"), definitions=both).preview()
    seen = replace(world.pipeline(name="copy"), definitions=MemoryDefinitions({"copy": "orders-lake"})).preview()
    assert seen.why == "what it takes is known once what comes first is done"
    assert seen.first == ("the group goes over from subscription orders, whose definition is gone",)
    assert world.ledger.group_holders("orders-lake") == {"orders"}
    world.produce(5)
    brought = planned(world.pipeline())
    assert brought is not None
    seen = replace(world.pipeline(name="copy"), definitions=MemoryDefinitions({"copy": "orders-lake"})).preview()
    assert seen.first[0].endswith(f"gone, and with it its open batch {brought.id}, which is landed")


def test_an_open_batch_goes_on() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    seen = world.pipeline().preview()
    assert (seen.batch, seen.is_open) == (batch, True)
    world.ledger.close(batch.id, Outcome.ABANDONED)
    assert world.pipeline().preview().is_open is False


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Resolution.SKIP, "the open batch is ignored: nothing of it is published, and its offsets are committed"),
        (
            Resolution.DEAD_LETTER,
            "the records of the open batch go to the dead-letter topic, nothing of it is published",
        ),
        (Resolution.REDELIVER, "the open batch goes on, it is failed"),
    ],
)
def test_a_batch_that_somebody_answered_says_what_becomes_of_it(answer: Resolution, said: str) -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders")
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    world.ledger.failed(batch.id, world.ledger.start_delivery(batch.id), "no", Cause.RECORDS)
    world.ledger.resolve(batch.id, Resolution.STOP)
    world.pipeline().clear("ada", "", answer)
    assert world.pipeline().preview().why == said


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("fail", "the retry limit was reached: no.*then `tidegate clear orders` has the batch delivered again"),
        ("ask", "the batch asks how to go on: .*`tidegate clear orders --answer redeliver"),
    ],
)
def test_a_batch_that_has_failed_as_often_as_it_may_stops_the_next_run(strategy: str, said: str) -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders")
    world.produce(5)
    pipeline = world.pipeline(failure_strategy=strategy, max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.ledger.failed(batch.id, world.ledger.start_delivery(batch.id), "no", Cause.RECORDS)
    with pytest.raises(StoppedError, match=f"(?s){said}"):
        pipeline.preview()
    assert world.ledger.look("orders").open == world.ledger.batch(batch.id)


def test_a_batch_that_is_given_up_at_the_limit_says_so() -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders")
    world.produce(5)
    pipeline = world.pipeline(failure_strategy="dead-letter-queue", max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.ledger.failed(batch.id, world.ledger.start_delivery(batch.id), "no", Cause.RECORDS)
    assert "go to the dead-letter topic, nothing of it is published" in pipeline.preview().why


def test_a_new_group_reads_again_what_the_old_one_has_delivered() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.kafka.group = "other"
    world.kafka.expire()
    seen = world.pipeline(consumer={"group_id": "other"}).preview()
    assert (seen.reread, seen.skipped) == (5, 0)
    assert "group orders-lake" in " ".join(seen.changes)


def test_a_new_group_at_the_latest_passes_over_what_waits() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.produce(3)
    world.kafka.expire()
    consumer = {"group_id": "other", "auto_offset_reset": "latest"}
    seen = world.pipeline(consumer=consumer).preview()
    assert (seen.reread, seen.skipped) == (0, 3)


def test_an_open_batch_keeps_its_strategy_and_members_and_the_new_ones_are_said_to_come_later() -> None:
    world = World()
    world.produce(5)
    assert planned(world.pipeline()) is not None
    assert world.pipeline(commit_strategy="manual", members=2).preview().changes == (
        "commit-strategy: manual takes effect with the next batch, the open one has after-processing",
        "members: 2 takes effect with the next batch, the open one has 1",
    )


def test_spark_which_has_no_members_is_not_said_to_have_one() -> None:
    world = World()
    world.produce(5)
    assert planned(world.pipeline(members=3)) is not None
    assert world.pipeline(landing_engine="spark").preview().changes == ()


def test_an_open_batch_keeps_its_output_and_the_new_one_is_said_to_come_later() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    assert world.pipeline().preview().changes == ()
    changed = replace(world.pipeline(), output="delta+file:///lake/elsewhere")
    seen = changed.preview()
    assert seen.batch is not None
    assert seen.batch.output == "file:///lake/orders"
    assert seen.changes == (
        "processing.format: delta takes effect with the next batch, the open one has parquet",
        (
            "processing.output: file:///lake/elsewhere takes effect with the next batch, the open one has "
            "file:///lake/orders"
        ),
    )
    done = deliver(changed)
    assert done is not None
    assert (done.id, done.output) == (batch.id, "file:///lake/orders")


def test_a_topic_that_is_no_longer_chosen_is_said_with_what_waits_in_it() -> None:
    world = World()
    world.topics.create("returns", 1)
    world.produce(5)
    world.produce(2, topic="returns")
    deliver(world.pipeline(topics=TopicNames(("orders", "returns"))))
    seen = world.pipeline().preview()
    assert seen.changes == ("returns-0 isn't read any more: the group's position there stays at 2",)
    world.produce(3, topic="returns")
    (said,) = world.pipeline().preview().changes
    assert (
        said == "returns-0 isn't read any more: the group's position there stays at 2, with 3 offsets unread after it"
    )
    world.topics.delete("returns")
    assert world.pipeline().preview().changes == seen.changes


def test_topics_that_were_read_apart_are_nobodys_move_once_they_are_read_together() -> None:
    world = World()
    world.topics.create("returns", 1)
    for topic in ("orders", "returns"):
        world.produce(5, topic=topic)
        deliver(world.pipeline(topics=TopicNames((topic,))))
    seen = world.pipeline(topics=TopicNames(("orders", "returns"))).preview()
    assert {start.why for start in seen.starts} == {"partitions that were read apart are read together"}
    assert (seen.reread, seen.skipped) == (0, 0)


def test_a_topic_that_was_deleted_is_not_promised_to_be_read_from_its_beginning() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.topics.delete("orders")
    world.kafka.forget("orders")
    gone = "none of the topics exists any more (orders); create it again, or correct the definition"
    seen = world.pipeline().preview()
    later = "what is created after it is read from its earliest record; if it is created before, on-data-loss decides"
    assert (seen.why, seen.first) == (gone, (f"not there any more: orders; the run notes that, and {later}",))
    world.topics.create("orders", 1)
    with pytest.raises(LostDataError, match="deleted and created again"):
        world.pipeline().plan()
    world.topics.delete("orders")
    world.pipeline().plan()
    assert (world.pipeline().preview().why, world.pipeline().preview().first) == (gone, ())
    world.topics.create("orders", 1)
    world.produce(2)
    batch = planned(world.pipeline())
    assert batch is not None
    assert [(r.start, r.end) for r in batch.ranges] == [(0, 2)]


def test_a_topic_that_nobody_has_read_is_read_from_its_earliest_record_once_it_is_there() -> None:
    seen = World(topic=None).pipeline().preview()
    assert seen.why == "none of the topics exists yet (orders); create it, or correct the definition"
    assert seen.first == ("not there yet, read from its earliest record once it is: orders",)


def test_what_ignore_has_published_counts_as_read_again_by_a_strategy_that_commits() -> None:
    world = World(partitions=2)
    world.produce(5)
    for _ in range(2):
        world.offsets_of_ignore()
        assert world.pipeline(commit_strategy="ignore").preview().reread == 0
        assert deliver(world.pipeline(commit_strategy="ignore")) is not None
    world.produce(3)
    world.offsets = world.kafka
    seen = world.pipeline().preview()
    assert seen.reread == 5
    assert seen.starts[0].offset == 0
    why = "the group has no offsets, as its last batch was by commit-strategy: ignore, which commits none"
    assert {each.why for each in seen.starts} == {why}
    batch = deliver(world.pipeline())
    assert batch is not None
    assert [(r.partition, r.start, r.end) for r in batch.ranges] == [(0, 0, 8), (1, 0, 0)]
    world.kafka.expire()
    seen = world.pipeline().preview()
    assert {each.why for each in seen.starts} == {"the group's offsets vanished: on from the ledger"}
    assert seen.reread == 0


def test_live_members_of_the_group_by_which_the_run_would_end_are_named() -> None:
    world = World()
    assert deliver(world.pipeline()) is None
    world.kafka.join("dashboard-1")
    assert world.pipeline().preview().batch is None
    world.produce(3)
    with pytest.raises(GroupInUseError, match=r"live members.*dashboard-1.*subscription orders.*stop them"):
        world.pipeline().preview()
    assert world.pipeline(commit_strategy="ignore").preview().batch is not None
    world.kafka.leave("dashboard-1")
    assert world.pipeline().preview().batch is not None
