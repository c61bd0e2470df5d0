"""A topic that was deleted and created again is another topic: none of its records is passed over."""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from world import Before, Crash, World, planned

from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import LostDataError, StaleError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.subscription import DelayedRetryTopic, TopicNames, TopicPattern
from tidegate.monitoring.health import Verdict
from tidegate.monitoring.status import status_of
from tidegate.operations.reset_syntax import partitions
from tidegate.ports import Fence, Landing, Ledger, Loss, OffsetStore, RecordSource
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.steps.anchor import Earliest
from tidegate.steps.loss import created_again
from tidegate.steps.reset_group import ResetRequest, reset_group
from tidegate.steps.selection import partitions_of
from tidegate.testing.effects import Effect, Method, watched
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.processor import Acks

STRATEGIES = ["after-processing", "on-receipt", "on-next-poll", "throttled", "latest", "manual"]
QUICK: dict[str, Any] = {"poll_timeout_ms": 1}


def deliver(pipeline: Pipeline) -> Batch | None:
    """One run to its end, in its strategy's order, and the commit that some leave to a person or to the next run."""
    run = run_batch(pipeline, lambda _step: None)
    if run.error is not None:
        raise run.error
    if run.batch is not None and run.batch.awaits_commit and not run.batch.offsets_committed:
        return pipeline.commit_open()
    return run.batch


def ten_are_committed(**definition: Any) -> World:
    """A group that has read ten records of each of two partitions, and a ledger that knows it."""
    world = World(partitions=2)
    for partition in (0, 1):
        world.produce(10, partition)
    batch = deliver(world.pipeline(**QUICK, **definition))
    assert batch is not None
    assert batch.landed_records == 20
    assert (world.committed(0), world.committed(1)) == (10, 10)
    return world


def recreate(world: World, partitions: int = 2, records: int = 30, topic: str = "orders") -> None:
    """As an administrator does it; the broker drops the group's offsets together with the topic."""
    world.topics.delete(topic)
    for at in [at for at in world.kafka.positions if at.topic == topic]:
        del world.kafka.positions[at]
    world.topics.create(topic, partitions)
    for partition in range(partitions):
        world.produce(records, partition, topic)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("records", [10, 30])
def test_the_run_fails_and_names_the_topic_unless_it_may_go_on_at_the_earliest(
    strategy: str, partitions: int, records: int
) -> None:
    world = ten_are_committed(commit_strategy=strategy)
    recreate(world, partitions, records)
    with pytest.raises(LostDataError, match=r"deleted and created again.*orders.*on-data-loss: reset"):
        deliver(world.pipeline(**QUICK, commit_strategy=strategy))
    assert world.committed(0) is None
    batch = deliver(world.pipeline(**QUICK, commit_strategy=strategy, on_data_loss="reset"))
    assert batch is not None
    assert batch.ranges == tuple(Range("orders", number, 0, records) for number in range(partitions))
    assert batch.landed_records == partitions * records
    lost = world.ledger.losses("orders")
    assert lost == tuple(Loss("orders", number, 10, 0, records) for number in range(min(partitions, 2)))


def test_of_many_lost_positions_a_few_are_named_and_the_others_are_counted_before_the_remedy() -> None:
    world = World(partitions=40)
    for partition in range(40):
        world.produce(10, partition=partition)
    deliver(world.pipeline(**QUICK))
    recreate(world, 40, 10)
    with pytest.raises(LostDataError) as raised:
        deliver(world.pipeline(**QUICK))
    seen, said = str(raised.value)[:400], str(raised.value)
    assert "deleted and created again" in seen
    assert re.search(
        r"and 3\d more \(subscription orders, group .*or choose where by `tidegate group reset orders --to earliest",
        seen,
    )
    assert all(f"partition {partition}, offset 10)" in said for partition in range(40))
    told = status_of(world.pipeline(**QUICK), 1).findings[0]
    assert (told.verdict, len(told.reason) < 400, "and 3" in told.reason) == (Verdict.STALLED, True, True), told
    assert len(status_of(world.pipeline(**QUICK), 1).facts.lost) == 40


def test_once_it_went_on_nothing_is_read_again() -> None:
    world = ten_are_committed()
    recreate(world)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    assert deliver(pipeline) is not None
    assert deliver(pipeline) is None
    assert deliver(world.pipeline(**QUICK)) is None
    world.kafka.expire()
    assert deliver(world.pipeline(**QUICK)) is None
    assert (world.committed(0), world.committed(1)) == (30, 30)


def test_only_the_topic_that_was_created_again_begins_anew() -> None:
    world = World()
    world.topics.create("returns")
    both: dict[str, Any] = {**QUICK, "topics": TopicNames(("orders", "returns")), "on_data_loss": "reset"}
    world.produce(10)
    world.produce(10, topic="returns")
    assert deliver(world.pipeline(**both)) is not None
    recreate(world, partitions=1, topic="returns")
    world.produce(2)
    batch = deliver(world.pipeline(**both))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 12), Range("returns", 0, 0, 30))


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("returns", {"topics": TopicNames(("orders", "returns"))}),
        (
            "again_9",
            {"failure_strategy": "delayed-retry-topic", "delayed_retry_topic": DelayedRetryTopic(("again_9",))},
        ),
    ],
)
def test_the_command_that_a_run_names_has_only_the_lost_topic_begin_anew(name: str, also: dict[str, Any]) -> None:
    world = World()
    world.topics.create(name)
    definition: dict[str, Any] = {**QUICK, **also}
    world.produce(10)
    world.produce(10, topic=name)
    assert deliver(world.pipeline(**definition)) is not None
    recreate(world, partitions=2, topic=name)
    pipeline = world.pipeline(**definition)
    with pytest.raises(LostDataError) as raised:
        deliver(pipeline)
    (command,) = re.findall(r"`tidegate group reset orders --to earliest --partitions (\S+)`", str(raised.value))
    chosen = partitions([command], partitions_of(pipeline.subscription, pipeline.source))
    reset_group(pipeline, ResetRequest(Earliest(), "ada", partitions=chosen))
    world.produce(2)
    batch = deliver(pipeline)
    assert batch is not None
    assert Range("orders", 0, 10, 12) in batch.ranges
    assert [(r.start, r.end) for r in batch.ranges if r.topic == name] == [(0, 30), (0, 30)]


def test_all_of_several_topics_begin_anew() -> None:
    world = World()
    world.topics.create("returns")
    both: dict[str, Any] = {**QUICK, "topics": TopicNames(("orders", "returns"))}
    world.produce(10)
    world.produce(10, topic="returns")
    assert deliver(world.pipeline(**both)) is not None
    recreate(world, partitions=1)
    recreate(world, partitions=1, topic="returns")
    with pytest.raises(LostDataError, match=r"(?s)topic orders.*topic returns"):
        deliver(world.pipeline(**both))
    batch = deliver(world.pipeline(**both, on_data_loss="reset"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 0, 30), Range("returns", 0, 0, 30))


@pytest.mark.parametrize("records", [5, 30])
@pytest.mark.parametrize("latest", [False, True])
def test_a_run_while_it_is_missing_promises_its_earliest_record_and_keeps_the_promise(
    records: int, latest: bool, caplog: pytest.LogCaptureFixture
) -> None:
    definition: dict[str, Any] = {**QUICK, "consumer": {"auto_offset_reset": "latest" if latest else "earliest"}}
    world = ten_are_committed()
    world.topics.delete("orders")
    world.kafka.positions.clear()
    with caplog.at_level(logging.WARNING):
        assert deliver(world.pipeline(**definition)) is None
    assert "it is read from its earliest record" in caplog.text
    recreate(world, records=records)
    batch = deliver(world.pipeline(**definition))
    assert batch is not None
    assert batch.ranges == tuple(Range("orders", number, 0, records) for number in (0, 1))
    assert world.ledger.look("orders").missing == frozenset()
    assert "a position is lost: the topic was deleted and created again" in caplog.text
    assert world.ledger.losses("orders") == tuple(Loss("orders", number, 10, 0, records) for number in (0, 1))
    seen = status_of(world.pipeline(**definition), 1)
    assert (seen.facts.moves, [each.verdict for each in seen.findings]) == ((), [Verdict.OK])
    world.kafka.expire()
    assert deliver(world.pipeline(**definition)) is None


def test_one_of_two_topics_that_a_run_found_gone_is_lost_alone() -> None:
    world = World()
    world.topics.create("returns")
    both: dict[str, Any] = {**QUICK, "topics": TopicNames(("orders", "returns"))}
    world.produce(10)
    world.produce(10, topic="returns")
    assert deliver(world.pipeline(**both)) is not None
    world.topics.delete("returns")
    world.kafka.positions = {at: each for at, each in world.kafka.positions.items() if at.topic != "returns"}
    world.produce(5)
    batch = deliver(world.pipeline(**both))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 15),)
    world.topics.create("returns")
    world.produce(7, topic="returns")
    batch = deliver(world.pipeline(**both))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 15, 15), Range("returns", 0, 0, 7))
    assert world.ledger.losses("orders") == (Loss("returns", 0, 10, 0, 7),)
    assert status_of(world.pipeline(**both), 1).facts.moves == ()


def test_a_topic_that_only_hid_for_a_while_goes_on_where_it_stood() -> None:
    """An administrator takes a right away and gives it back: the topic is the same."""
    world = ten_are_committed()
    hidden = (world.topics.logs, dict(world.topics.ids))
    world.topics.delete("orders")
    assert deliver(world.pipeline(**QUICK)) is None
    world.topics.logs, world.topics.ids = hidden
    world.kafka.expire()
    world.produce(1)
    batch = deliver(world.pipeline(**QUICK))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 11), Range("orders", 1, 10, 10))


def hide_returns(world: World) -> Callable[[], None]:
    """Of the topics `orders` and `returns` the second; what shows it again does so once its positions have expired."""
    logs, ids = world.topics.logs, dict(world.topics.ids)
    world.topics.delete("returns")

    def show() -> None:
        world.topics.logs, world.topics.ids = {**logs, **world.topics.logs}, ids
        world.kafka.positions = {at: each for at, each in world.kafka.positions.items() if at.topic != "returns"}

    return show


@pytest.mark.parametrize("topics", [TopicNames(("orders", "returns")), TopicPattern("orders|returns")], ids=str)
def test_one_of_two_topics_that_hid_until_its_position_expired_goes_on_where_it_stood(
    topics: TopicNames | TopicPattern,
) -> None:
    world = World()
    world.topics.create("returns")
    both: dict[str, Any] = {**QUICK, "topics": topics}
    world.produce(10)
    world.produce(10, topic="returns")
    assert deliver(world.pipeline(**both)) is not None
    show = hide_returns(world)
    for count in (1, 2):
        world.produce(count)
        assert deliver(world.pipeline(**both)) is not None
    show()
    world.produce(3, topic="returns")
    batch = deliver(world.pipeline(**both))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 13, 13), Range("returns", 0, 10, 13))


def test_one_of_two_topics_that_hid_before_its_published_rows_were_committed_goes_on_after_them() -> None:
    world = World()
    world.topics.create("returns")
    both: dict[str, Any] = {**QUICK, "topics": TopicNames(("orders", "returns"))}
    for topic in ("orders", "returns"):
        world.produce(6, topic=topic)
    assert deliver(world.pipeline(**both)) is not None
    for topic in ("orders", "returns"):
        world.produce(4, topic=topic)
    with suppress(Crash):
        deliver(watched(world.pipeline(**both), Before(Fence.commit)))
    show = hide_returns(world)
    assert deliver(world.pipeline(**both)) is not None
    assert world.committed() == 10
    show()
    world.produce(3, topic="returns")
    batch = deliver(world.pipeline(**both))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 10), Range("returns", 0, 10, 13))


@pytest.mark.parametrize("topics", [TopicNames(("orders",)), TopicPattern("orders")], ids=str)
@pytest.mark.parametrize("expired", [False, True])
def test_the_only_topic_that_hid_before_its_published_rows_were_committed_goes_on_after_them(
    topics: TopicNames | TopicPattern, expired: bool
) -> None:
    world = ten_are_committed(topics=topics)
    world.produce(4)
    with suppress(Crash):
        deliver(watched(world.pipeline(**QUICK, topics=topics), Before(Fence.commit)))
    hidden = (world.topics.logs, dict(world.topics.ids))
    world.topics.delete("orders")
    assert deliver(world.pipeline(**QUICK, topics=topics)) is None
    world.topics.logs, world.topics.ids = hidden
    if expired:
        world.kafka.expire()
    else:
        assert deliver(world.pipeline(**QUICK, topics=topics)) is not None
    world.produce(3)
    batch = deliver(world.pipeline(**QUICK, topics=topics))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 14, 17), Range("orders", 1, 10, 10))


@pytest.mark.parametrize("topics", [TopicNames(("orders", "returns")), TopicPattern("orders|returns")], ids=str)
def test_a_topic_that_a_run_found_gone_is_read_from_its_beginning_once_one_of_its_name_is_there(
    topics: TopicNames | TopicPattern, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.topics.create("returns")
    for topic in ("orders", "returns"):
        world.produce(10, topic=topic)
    assert deliver(world.pipeline(**QUICK, topics=topics)) is not None
    world.produce(7, topic="returns")
    world.topics.delete("returns")
    world.kafka.forget("returns")
    for _ in range(2):
        assert deliver(world.pipeline(**QUICK, topics=topics)) is None
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    gone = "no such topic or partition any more: returns (subscription orders)"
    assert said == f"{gone}; once there, it is read from its earliest record"
    recreate(world, partitions=1, records=3, topic="returns")
    batch = deliver(world.pipeline(**QUICK, topics=topics))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 10), Range("returns", 0, 0, 3))


def test_a_person_who_resets_the_group_is_honoured_on_the_new_topic() -> None:
    world = ten_are_committed()
    recreate(world)
    world.kafka.reset(dict.fromkeys([r.at for r in world.ledger.history("orders", 1)[0].batch.ranges], 5))
    batch = deliver(world.pipeline(**QUICK))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 5, 30), Range("orders", 1, 5, 30))


def test_positions_that_a_store_keeps_beyond_the_topic_are_lost_too() -> None:
    world = ten_are_committed(commit_strategy="checkpoint")
    kept = dict(world.kafka.positions)
    recreate(world)
    world.kafka.positions.update(kept)
    with pytest.raises(LostDataError, match="created again"):
        deliver(world.pipeline(**QUICK, commit_strategy="checkpoint"))


def test_a_planned_batch_is_not_landed_from_the_new_topic() -> None:
    world = World()
    world.produce(10)
    pipeline = world.pipeline(**QUICK)
    assert deliver(pipeline) is not None
    world.produce(10)
    plan = pipeline.plan()
    assert plan.batch is not None
    recreate(world, partitions=1)
    before = set(world.landing.files)
    with pytest.raises(StaleError, match=r"topic orders was deleted and created again.*nothing was landed"):
        pipeline.land(plan.batch.id, 0)
    assert set(world.landing.files) == before
    with pytest.raises(LostDataError, match="created again"):
        pipeline.plan()
    batch = deliver(world.pipeline(**QUICK, on_data_loss="reset"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 0, 30),)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_landed_of_the_old_topic_still_reaches_the_lake_and_then_the_new_one_is_read_whole(strategy: str) -> None:
    world = World()
    world.produce(10)
    definition: dict[str, Any] = {**QUICK, "commit_strategy": strategy, "on_data_loss": "reset"}
    batch = planned(world.pipeline(**definition))
    assert batch is not None
    recreate(world, partitions=1)
    ends = []
    for _ in range(4):
        again = deliver(world.pipeline(**definition))
        ends += [] if again is None else [again.ranges[0]]
    assert world.published() == [(0, 10), (0, 30)], ends


class Recreated:
    """Somebody creates the topic again once this method of a port was called for the `nth` time."""

    def __init__(self, world: World, method: Method, nth: int = 1) -> None:
        self._world = world
        self._effect = Effect.of(method)
        self._left = nth

    def before(self, effect: Effect) -> None:
        """Nothing yet."""

    def after(self, effect: Effect) -> None:
        self._left -= effect == self._effect
        if self._left == 0:
            self._left = -1
            recreate(self._world)


@pytest.mark.parametrize("seen", [RecordSource.topic_ids, OffsetStore.committed, Ledger.last_ends, Fence.committed])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_topic_that_is_created_again_while_a_plan_looks_is_read_from_its_beginning(
    seen: Method, *, is_known: bool
) -> None:
    """Whatever it has looked at by then, and with a ledger that was lost before too."""
    world = ten_are_committed()
    if not is_known:
        world.ledger = MemoryLedger(world.clock.now)
    if seen is Fence.committed:
        world.kafka.expire()
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    planned_meanwhile = watched(pipeline, Recreated(world, seen))
    with suppress(StaleError):
        deliver(planned_meanwhile)
    while deliver(pipeline) is not None:
        pass
    held = [manifest.batch.ranges for manifest in world.processor.delivered[1:]]
    assert [(r.start, r.end) for ranges in held for r in ranges] == [(0, 30), (0, 30)]


@pytest.mark.parametrize("strategy", ["after-processing", "on-receipt", "throttled", "latest"])
def test_what_was_landed_of_the_older_topic_moves_no_position_in_the_newer(strategy: str) -> None:
    world = ten_are_committed(commit_strategy=strategy)
    for partition in (0, 1):
        world.produce(2, partition)
    pipeline = world.pipeline(**QUICK, commit_strategy=strategy, on_data_loss="reset")
    assert planned(pipeline) is not None
    recreate(world)
    each = [TopicPartition("orders", number) for number in (0, 1)]
    world.processor.acks = [Acks({at: [offset] for at in each}) for offset in (10, 11)]
    older = deliver(pipeline)
    assert older is not None
    assert (older.landed_records, older.condition) == (4, Outcome.COMMITTED)
    assert (world.committed(0), world.committed(1)) == (None, None)
    world.ledger = MemoryLedger(world.clock.now)
    world.processor.acks = None
    newer = deliver(pipeline)
    assert newer is not None
    assert (newer.landed_records, world.committed(0), world.committed(1)) == (60, 30, 30)


def test_what_a_plan_took_from_the_lake_moves_no_position_in_a_newer_topic() -> None:
    """The ledger was lost after a publish, and the topic is created again before the commit that a plan finishes."""
    world = ten_are_committed()
    for partition in (0, 1):
        world.produce(2, partition)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    with suppress(Crash):
        deliver(watched(pipeline, Before(Fence.commit)))
    world.ledger = MemoryLedger(world.clock.now)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    taken = pipeline.plan().batch
    assert taken is not None
    assert taken.state is State.PUBLISHED
    recreate(world)
    pipeline.settle(taken.id)
    assert (world.committed(0), world.committed(1)) == (None, None)
    newer = deliver(pipeline)
    assert newer is not None
    assert (newer.landed_records, world.committed(0), world.committed(1)) == (60, 30, 30)


class After:
    """The run ends after this method of a port was called."""

    def __init__(self, method: Method) -> None:
        self._effect = Effect.of(method)

    def before(self, effect: Effect) -> None:
        """Goes on."""

    def after(self, effect: Effect) -> None:
        if effect == self._effect:
            raise Crash


class Meanwhile:
    """Something happens once this method of a port was called."""

    def __init__(self, method: Method, happens: Callable[[], object]) -> None:
        self._effect = Effect.of(method)
        self._happens: Callable[[], object] | None = happens

    def before(self, effect: Effect) -> None:
        """Nothing yet."""

    def after(self, effect: Effect) -> None:
        if effect == self._effect and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()


def test_a_plan_that_looked_before_another_went_on_with_the_topic_moves_nothing() -> None:
    world = ten_are_committed()
    recreate(world)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")

    def others() -> None:
        """Another plan goes on with the newer topic, and then with where somebody moves the group to."""
        with suppress(Crash):
            watched(pipeline, Before(Ledger.open)).plan()
        world.kafka.reset({TopicPartition("orders", number): 25 for number in (0, 1)})
        with suppress(Crash):
            watched(pipeline, Before(Ledger.open)).plan()

    planned_late = watched(pipeline, Meanwhile(RecordSource.topic_ids, others)).plan()
    assert planned_late.batch is not None
    assert [(r.start, r.end) for r in planned_late.batch.ranges] == [(25, 30), (25, 30)]


def test_what_was_read_of_the_newer_topic_under_an_earlier_name_is_not_landed() -> None:
    """While it lands, the ledger is lost, the definition is renamed and plans the same, and the topic is recreated."""
    world = World()
    world.produce(10)
    pipeline = world.pipeline(**QUICK)
    plan = pipeline.plan()
    assert plan.batch is not None
    renamed = world.pipeline(**QUICK, name="sales", consumer={"group_id": "orders-lake"}, on_data_loss="reset")

    def others() -> None:
        vars(world.ledger).clear()
        vars(world.ledger).update(vars(MemoryLedger(world.clock.now)))
        same = renamed.plan().batch
        assert same is not None
        assert plan.batch is not None
        assert same.id == plan.batch.id
        recreate(world, partitions=1)

    with pytest.raises(StaleError, match="is subscription sales's"):
        watched(pipeline, Meanwhile(Landing.writer, others)).land(plan.batch.id, 0)
    assert not world.landing.files
    while deliver(renamed) is not None:
        pass
    assert world.published() == [(0, 30)]


@pytest.mark.parametrize("records", [0, 5])
def test_a_partition_that_the_newer_topic_gets_later_is_read_from_its_beginning(records: int) -> None:
    """The older topic had one of this number, and the ledger knows where the group stood in it."""
    world = ten_are_committed()
    recreate(world, partitions=1, records=records)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    assert (deliver(pipeline) is not None) == (records > 0)
    world.topics.add_partitions("orders", 1)
    world.produce(12, partition=1)
    grown = deliver(pipeline)
    assert grown is not None
    assert grown.ranges[1] == Range("orders", 1, 0, 12)


def test_an_anchor_whose_run_ends_before_it_is_noted_whole_skips_nothing_of_a_newer_topic() -> None:
    """Where the group is said to stand, the ledger knows in which topic."""
    world = World()
    world.produce(10)
    world.kafka.reset({TopicPartition("orders", 0): 5})
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    with suppress(Crash):
        watched(pipeline, After(Ledger.note_commit)).plan()
    recreate(world, partitions=1)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 0, 30),)


def test_a_person_who_resets_the_group_on_a_newer_topic_is_honoured_though_its_anchor_was_never_noted() -> None:
    """The run that went on with the newer topic dies once it has committed where it begins."""
    world = ten_are_committed()
    recreate(world)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")
    with suppress(Crash):
        watched(pipeline, After(Fence.commit)).plan()
    world.kafka.reset({TopicPartition("orders", number): 25 for number in (0, 1)})
    with suppress(Crash):
        watched(pipeline, After(Fence.commit)).plan()
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 25, 30), Range("orders", 1, 25, 30))


def test_a_plan_that_looked_at_the_older_topic_freezes_nothing_of_the_newer() -> None:
    """It knows positions of the older topic, and another plan has gone on with the newer one since."""
    world = ten_are_committed()
    for partition in (0, 1):
        world.produce(2, partition)
    pipeline = world.pipeline(**QUICK, on_data_loss="reset")

    def others() -> None:
        recreate(world)
        with suppress(Crash):
            watched(pipeline, Before(Ledger.open)).plan()

    with suppress(StaleError):
        deliver(watched(pipeline, Meanwhile(RecordSource.watermarks, others)))
    while deliver(pipeline) is not None:
        pass
    assert world.published() == [(0, 10), (0, 30)]


def test_of_what_topic_a_batch_was_is_unknown_once_the_ledger_has_lost_it() -> None:
    """Its ends might be committed in a newer topic."""
    world = ten_are_committed()
    world.produce(2)
    pipeline = world.pipeline(**QUICK)
    batch = planned(pipeline)
    assert batch is not None
    recreate(world)
    assert created_again(batch, {}, pipeline.source, world.ledger) == {"orders"}
    with pytest.raises(StaleError, match="the ledger doesn't know the batch"):
        created_again(batch, {}, pipeline.source, MemoryLedger(world.clock.now))


def test_a_batch_that_another_run_has_closed_moves_nothing_in_the_newer_topic() -> None:
    """The ledger has noted the newer topic by then, and no longer tells that the batch was read from the older one."""
    world = ten_are_committed()
    world.produce(2)
    pipeline = world.pipeline(**QUICK)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    recreate(world)
    assert pipeline.settle(batch.id) is not None
    with pytest.raises(StaleError, match="another run has closed the batch meanwhile"):
        created_again(batch, {}, pipeline.source, world.ledger)
