"""A range is read once more into another output, and nothing else changes."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_batches import closed, plan
from world import Crash, World, deliver

from tidegate.model.errors import BatchFailedError, StaleError, StoppedError, WrongDefinitionError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.output_uri import OutputFormat
from tidegate.operations.replay import Replayed, ReplayRequest, begin_replay, derived, run_replay
from tidegate.ports import Replay
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.anchor import Earliest, Latest
from tidegate.steps.reset_group import ToOffsets
from tidegate.testing.definitions import MemoryDefinitions
from tidegate.testing.effects import Effect, watched
from tidegate.testing.offsets import MemoryOffsets

HOME = Path("/home/orders")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ALL = ReplayRequest(Earliest(), Latest(), "again", "from earliest to latest", "ada")


class Replays(World):
    """A world with the ledger's store for the positions of replays."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.checkpoints = MemoryOffsets("replay", fencing=True, keeps_state=True)

    def begun(self, request: ReplayRequest = ALL, **definition: Any) -> tuple[Pipeline, Replay]:
        """The derived pipeline, and what it replays."""
        live = self.pipeline(**definition)
        replay = begin_replay(live, request, HOME)
        name = f"file:///lake/{replay.name}"
        of_it = replace(live, subscription=derived(live.subscription, replay), output=name, elsewhere=self.checkpoints)
        keeps = of_it.subscription.commit_policy.keeps_state
        return (replace(of_it, offsets=self.checkpoints, elsewhere=self.kafka) if keeps else of_it), replay

    def replay(self, request: ReplayRequest = ALL, **definition: Any) -> Replayed:
        pipeline, replay = self.begun(request, **definition)
        return run_replay(pipeline, replay, "ada", lambda _: None)

    def replayed(self) -> list[tuple[int, int, int]]:
        """Partition, start and end of what is in the other output."""
        held = [each.manifest.batch for each in self.lake.published_attempts.values()]
        again = [batch for batch in held if "-replay-" in batch.subscription]
        return sorted((r.partition, r.start, r.end) for batch in again for r in batch.ranges if not r.is_empty)


def world_of(*counts: int) -> Replays:
    """All of these records are delivered."""
    world = Replays(len(counts))
    for partition, count in enumerate(counts):
        world.produce(count, partition)
    while deliver(world.pipeline()) is not None:
        pass
    return world


def test_the_range_comes_once_in_the_other_output_and_the_group_stays() -> None:
    world = world_of(7, 3)
    before = dict(world.kafka.positions), world.published(), world.ledger.look("orders")
    done = world.replay(consumer={"max_poll_records": 4})
    assert sum(end - start for _, start, end in world.replayed()) == 10
    assert {(p, o) for p, s, e in world.replayed() for o in range(s, e)} == {
        *((0, o) for o in range(7)),
        *((1, o) for o in range(3)),
    }
    assert (done.batches, done.records, done.rows) == (3, 10, 10)
    live = [each for each in world.lake.published_attempts.values() if each.manifest.batch.subscription == "orders"]
    assert dict(world.kafka.positions) == before[0]
    assert (world.ledger.look("orders"), len(live)) == (before[2], 1)


def test_what_arrives_meanwhile_is_not_of_it() -> None:
    world = world_of(4)
    pipeline, replay = world.begun()
    world.produce(5)
    run_replay(pipeline, replay, "ada", lambda _: None)
    assert world.replayed() == [(0, 0, 4)]


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        (Earliest(), ToOffsets({P0: 3, P1: 2}), [(0, 0, 3), (1, 0, 2)]),
        (ToOffsets({P0: 2}), Latest(), [(0, 2, 5)]),
        (ToOffsets({P0: 2, P1: 4}), ToOffsets({P0: 2, P1: 5}), [(1, 4, 5)]),
    ],
)
def test_offsets_name_the_partitions(start: Any, end: Any, read: list[tuple[int, int, int]]) -> None:
    world = world_of(5, 5)
    world.replay(replace(ALL, start=start, end=end))
    assert world.replayed() == read


def test_one_that_was_cut_short_goes_on_with_the_same_ranges_and_is_done_once() -> None:
    world = world_of(9)
    world.processor.failures += ["no memory", "no memory"]
    with pytest.raises(BatchFailedError):
        world.replay(consumer={"max_poll_records": 4}, max_retries=5)
    world.produce(3)
    with pytest.raises(BatchFailedError):
        world.replay(consumer={"max_poll_records": 4}, max_retries=5)
    world.replay(consumer={"max_poll_records": 4}, max_retries=5)
    assert world.replayed() == [(0, 0, 4), (0, 4, 8), (0, 8, 9)]
    (known,) = world.ledger.replays("orders")
    assert (known.is_done, known.ranges, known.by) == (True, (Range("orders", 0, 0, 9),), "ada")
    assert world.replay().batches == 0


def test_another_one_into_its_output_waits_until_it_is_done() -> None:
    world = world_of(9)
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        world.replay(max_retries=5)
    part = replace(ALL, end=ToOffsets({P0: 2}), asked="from earliest to a line")
    with pytest.raises(StaleError, match=r"which ada began, isn't done: .* or name another output"):
        world.replay(part, max_retries=5)
    world.replay(max_retries=5)
    assert world.begun(part)[1].ranges == (Range("orders", 0, 0, 2),)


def test_one_that_stopped_delivers_its_batch_again_when_it_is_run_again() -> None:
    world = world_of(3)
    world.processor.failures.append("no memory")
    with pytest.raises((BatchFailedError, StoppedError), match=r"the same `tidegate replay`, or .* goes on from here"):
        world.replay(max_retries=0)
    world.replay(max_retries=0)
    assert world.replayed() == [(0, 0, 3)]


def test_the_output_of_another_subscription_is_refused() -> None:
    world = world_of(3)
    others = MemoryDefinitions()
    pipeline = replace(world.pipeline(), definitions=others)
    others.others["flights"] = "file:///lake/flights"
    with pytest.raises(WrongDefinitionError, match=r"lies in or holds the output of flights, .*: nothing was replayed"):
        begin_replay(pipeline, replace(ALL, output="/lake/flights/again"), HOME)


def test_the_output_of_another_subscription_is_refused_by_a_link_too(tmp_path: Path) -> None:
    world = world_of(3)
    (tmp_path / "flights").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "flights")
    others = MemoryDefinitions()
    others.others["flights"] = f"delta+file://{tmp_path}/flights"
    pipeline = replace(world.pipeline(), definitions=others)
    with pytest.raises(WrongDefinitionError, match="link/again is, lies in or holds the output of flights"):
        begin_replay(pipeline, replace(ALL, output="link/again"), tmp_path)
    begin_replay(pipeline, replace(ALL, output="again"), tmp_path)


def publish(world: Replays, name: str, output: str) -> None:
    """The subscription, or replay, of this name has published a batch there, whatever its definition says now."""
    closed(world.ledger, replace(plan(subscription=name), id=f"of-{name}", output=output))


@pytest.mark.parametrize("output", ["lake/flights", "/home/orders/lake", "lake/flights/again"])
def test_an_output_that_has_batches_of_another_subscription_is_refused(output: str) -> None:
    world = world_of(3)
    publish(world, "flights", "file:///home/orders/lake/flights")
    said = (
        f"{output} is, lies in or holds an output that has batches of flights, file:///home/orders/lake/flights: "
        "nothing was replayed .*; name another output"
    )
    with pytest.raises(WrongDefinitionError, match=said):
        begin_replay(world.pipeline(), replace(ALL, output=output), HOME)
    assert world.ledger.replays() == ()


def test_an_output_that_has_batches_of_its_own_replays_stays_usable() -> None:
    world = world_of(9)
    first = begin_replay(world.pipeline(), ALL, HOME)
    publish(world, first.name, "file:///home/orders/again")
    assert begin_replay(world.pipeline(), ALL, HOME) == first
    world.ledger.end_replay(first.name)
    part = replace(ALL, end=ToOffsets({P0: 2}), asked="from earliest to a line")
    assert begin_replay(world.pipeline(), part, HOME).ranges == (Range("orders", 0, 0, 2),)


@pytest.mark.parametrize("output", ["/home/orders/data/landing", "data/landing/x", "data", "s3://minio@lake/own/x"])
def test_the_installations_own_places_are_no_output(output: str) -> None:
    world = world_of(3)
    own = {"the landing": "file:///home/orders/data/landing", "the logs": "s3://minio@lake/own/"}
    pipeline = replace(world.pipeline(), definitions=MemoryDefinitions(own=own))
    with pytest.raises(
        WrongDefinitionError, match=r"is, lies in or holds the (landing|logs), .*: nothing was replayed"
    ):
        begin_replay(pipeline, replace(ALL, output=output), HOME)
    begin_replay(pipeline, replace(ALL, output="data/again"), HOME)


@pytest.mark.parametrize(
    ("format_", "output", "said"),
    [
        ("parquet", "s3a://lake/again", "nothing was replayed: processing.output can't begin with s3a"),
        ("parquet", "s3://minio@lake/flights/again", "lies in or holds the output of flights"),
        ("delta", "lake.orders.again", "nothing was replayed: processing.output of format delta is a folder"),
        ("delta", "/lake/orders", "is, lies in or holds the output of orders"),
        ("iceberg", "lake/again", "nothing was replayed: processing.output of format iceberg must be"),
        ("iceberg", "lake.orders.live", "is, lies in or holds the output of tables"),
    ],
)
def test_the_output_is_one_of_the_definitions_format_and_of_no_subscription(
    format_: OutputFormat, output: str, said: str
) -> None:
    live = world_of(3).pipeline()
    processing = replace(live.subscription.processing, format=format_)
    others = MemoryDefinitions()
    others.others.update(flights="s3://minio@lake/flights", tables="iceberg://lake/orders/live")
    pipeline = replace(live, subscription=replace(live.subscription, processing=processing), definitions=others)
    with pytest.raises(WrongDefinitionError, match=said):
        begin_replay(pipeline, replace(ALL, output=output), HOME)


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "again/_delta_log").mkdir(parents=True)
    with pytest.raises(WrongDefinitionError, match="again has a Delta table"):
        begin_replay(world_of(3).pipeline(), ALL, tmp_path)


@pytest.mark.parametrize(
    "strategy", ["after-processing", "on-receipt", "on-next-poll", "manual", "ignore", "checkpoint"]
)
def test_under_each_strategy_it_comes_to_its_end(strategy: Any) -> None:
    world = Replays()
    world.produce(5)
    world.replay(commit_strategy=strategy, consumer={"max_poll_records": 2})
    assert world.replayed() == [(0, 0, 2), (0, 2, 4), (0, 4, 5)]
    assert world.kafka.positions == {}


def test_what_would_wait_for_somebody_else_fails_it() -> None:
    live = Replays().pipeline(failure_strategy="delayed-retry-topic").subscription
    replay = Replay(
        "orders-replay-1", "orders", "again", "", "ada", World().clock.now(), "", (Range("orders", 0, 0, 5),)
    )
    assert derived(live, replay).failure_strategy == "fail"
    assert derived(replace(live, failure_strategy="ask"), replay).failure_strategy == "fail"
    letters = derived(replace(live, failure_strategy="dead-letter-queue"), replay)
    assert (letters.failure_strategy, letters.dead_letter_topic) == ("dead-letter-queue", "dead-letter-topic-orders")
    assert letters.dead_letter_queue.replay == "orders-replay-1"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            replace(ALL, end=Earliest()),
            "there is nothing to replay: no partition holds anything from earliest to latest",
        ),
        (replace(ALL, end=ToOffsets({P0: 9})), r"orders-0 holds \[0, 5\), and \[0, 9\) is asked for"),
        (replace(ALL, start=ToOffsets({TopicPartition("others", 0): 1})), "the subscription reads no others-0"),
        (replace(ALL, output="/lake/orders"), "/lake/orders is, lies in or holds the output of orders"),
        (replace(ALL, output="/lake/orders/again"), "lies in"),
        (replace(ALL, output="/lake"), "holds the output"),
    ],
)
def test_what_cannot_be_replayed_is_refused_and_nothing_is_begun(request_: ReplayRequest, said: str) -> None:
    world = world_of(5)
    with pytest.raises(WrongDefinitionError, match=said):
        world.replay(request_)
    assert world.ledger.replays() == ()


class Ends:
    """Ends the process before or after the effect of this number."""

    def __init__(self, number: int, *, after: bool) -> None:
        self.left, self._after = number, after

    def before(self, _: Effect) -> None:
        if self.left == 0 and not self._after:
            raise Crash

    def after(self, _: Effect) -> None:
        if self.left == 0 and self._after:
            raise Crash
        self.left -= 1


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True])
def test_killed_anywhere_the_same_command_goes_on_and_each_record_comes_once(*, after: bool) -> None:
    effects, is_whole = 0, False
    while not is_whole:
        world = world_of(3)
        pipeline, replay = world.begun(consumer={"max_poll_records": 2})
        ends = Ends(effects, after=after)
        with suppress(Crash):
            run_replay(watched(pipeline, ends), replay, "ada", lambda _: None)
            is_whole = True
        world.replay(consumer={"max_poll_records": 2})
        assert world.replayed() == [(0, 0, 2), (0, 2, 3)], effects
        effects += 1
    assert effects > 50
