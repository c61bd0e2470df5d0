"""Positions and the job's state move together, whatever happens in between, and nothing else moves the state."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from world import Before, Crash, World, deliver, planned

from tidegate.ledger.offsets import SqlOffsets
from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, WrongDefinitionError
from tidegate.model.manifest import Manifest
from tidegate.monitoring.health import Finding, Verdict
from tidegate.monitoring.status import status_of
from tidegate.ports import Fence
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.effects import Effect, watched
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import Record

MakeWorld = Callable[[], World]


def count(manifest: Manifest) -> str:
    """A job that knows how many records it has seen in all."""
    before = json.loads(manifest.state)["records"] if manifest.state else 0
    return json.dumps({"records": before + manifest.records})


def world_of(offsets: Any) -> World:
    world = World()
    world.offsets = offsets
    world.processor.fold = count
    return world


@pytest.fixture
def world() -> World:
    return world_of(MemoryOffsets("orders-lake", fencing=True, keeps_state=True))


def pipeline(world: World, **definition: Any) -> Pipeline:
    return world.pipeline(**{"commit_strategy": "checkpoint", **definition})


def seen(world: World) -> int | None:
    """How many records the state in the store has seen."""
    state = world.offsets.state()
    return json.loads(state)["records"] if state else None


def test_each_batch_is_handed_what_the_last_one_left(world: World) -> None:
    for produced in (5, 3):
        world.produce(produced)
        deliver(pipeline(world))
    assert [manifest.state for manifest in world.processor.delivered] == [None, '{"records": 5}']
    assert (seen(world), world.committed()) == (8, 8)


def test_a_batch_is_delivered_again_with_the_old_state(world: World) -> None:
    world.produce(5)
    deliver(pipeline(world))
    world.produce(3)
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        deliver(pipeline(world))
    assert seen(world) == 5
    deliver(pipeline(world))
    assert [manifest.state for manifest in world.processor.delivered][1:] == ['{"records": 5}'] * 2
    assert (seen(world), world.committed()) == (8, 8)


def test_a_job_that_gives_no_state_keeps_the_old_one(world: World) -> None:
    world.produce(5)
    deliver(pipeline(world))
    world.processor.fold = lambda _: None
    world.produce(3)
    deliver(pipeline(world))
    assert (seen(world), world.committed()) == (5, 8)


@pytest.mark.parametrize("strategy", ["ignore", "dead-letter-queue", "delayed-retry-topic"])
def test_a_batch_that_is_given_up_keeps_the_state_and_moves_the_positions(world: World, strategy: Any) -> None:
    world.produce(5)
    deliver(pipeline(world))
    world.produce(3)
    world.processor.failures.append("no memory")
    giving_up = pipeline(world, failure_strategy=strategy, max_retries=0)
    for topic in giving_up.subscription.produced_topics:
        world.topics.create(topic)
    batch = planned(giving_up)
    assert batch is not None
    with pytest.raises(BatchFailedError):
        giving_up.process(batch.id)
    settled = giving_up.settle(batch.id)
    assert settled is not None
    assert settled.condition in (Outcome.IGNORED, Outcome.DEAD_LETTERED, Outcome.RETRIED)
    assert (seen(world), world.committed()) == (5, 8)
    assert len(world.offsets.produced) == (0 if strategy == "ignore" else 3)


def test_positions_that_move_without_records_keep_the_state(world: World) -> None:
    world.produce(5)
    deliver(pipeline(world))
    transaction = world.topics.begin()
    transaction.produce("orders", Record(b"never"))
    transaction.abort()
    moved = pipeline(world)
    batch = planned(moved)
    assert batch is not None
    assert moved.process(batch.id) is None
    moved.settle(batch.id)
    assert (seen(world), world.committed()) == (5, 7)


def test_a_state_that_nobody_would_keep_fails_the_delivery(world: World) -> None:
    world.produce(5)
    with pytest.raises(BatchFailedError, match=r"commit-strategy: checkpoint .* after-processing"):
        deliver(world.pipeline())
    assert world.published() == []


class Crashing:
    """Ends the process before or after the `nth` effect of these ports; holds the store to its promise at each."""

    def __init__(self, world: World, ports: str, nth: int) -> None:
        self._world = world
        self._ports = ports
        self._left = nth

    def before(self, effect: Effect) -> None:
        self._step(effect)

    def after(self, effect: Effect) -> None:
        self._step(effect)

    def _step(self, effect: Effect) -> None:
        if effect.port not in self._ports:
            return
        check(self._world)
        self._left -= 1
        if self._left == 0:
            raise Crash


def check(world: World) -> None:
    """Every offset is a record here, so that the state has seen just what is committed."""
    position = world.offsets.committed(list(world.topics.logs))
    assert (seen(world) or 0) == sum(committed.offset for committed in position.values())


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def make_world(store: str, tmp_path: Path, sqlite_template: Path) -> MakeWorld:
    """Makes fresh worlds of a kind of store."""
    made: Iterator[int] = iter(range(10**6))

    def make() -> World:
        if store == "memory":
            return world_of(MemoryOffsets("orders-lake", fencing=True, keeps_state=True))
        copy = shutil.copy(sqlite_template, tmp_path / f"{next(made)}.db")
        return world_of(SqlOffsets(f"sqlite:///{copy}", "orders", "orders-lake", MemoryOutbox()))

    return make


@pytest.mark.long
def test_positions_and_state_move_together_wherever_a_run_ends(store: str, make_world: MakeWorld) -> None:
    ports = "offsets fence" if store == "sqlite" else "source offsets fence landing writer lake ledger processor"
    nth, was_struck = 0, True
    while was_struck:
        nth += 1
        world = make_world()
        world.produce(5)
        deliver(pipeline(world))
        world.produce(3)
        was_struck = False
        try:
            deliver(watched(pipeline(world), Crashing(world, ports, nth)))
        except Crash:
            was_struck = True
        world.produce(2)
        while deliver(pipeline(world)) is not None:
            check(world)
        assert seen(world) == 10, nth
        assert [end for _, end in world.published()][-1] == 10
        assert [start for start, _ in world.published()] == [0, *[end for _, end in world.published()][:-1]]
    assert nth > 10


def test_whoever_finishes_the_commit_finds_the_state_in_the_lake(world: World) -> None:
    world.produce(5)
    batch = planned(pipeline(world))
    assert batch is not None
    pipeline(world).process(batch.id)
    with pytest.raises(Crash):
        watched(pipeline(world), Before(Fence.commit)).settle(batch.id)
    world.ledger = MemoryLedger(world.clock.now)
    deliver(pipeline(world))
    assert (seen(world), world.committed(), len(world.processor.delivered)) == (5, 5, 1)


def test_a_database_that_went_back_to_its_backup_is_brought_forward_by_the_lake(world: World) -> None:
    world.produce(5)
    deliver(pipeline(world))
    backup = deepcopy((world.ledger._entries, world.ledger._writes, world.offsets.positions, world.offsets.kept))
    for _ in range(2):
        world.produce(3)
        deliver(pipeline(world))
    world.ledger._entries, world.ledger._writes, world.offsets.positions, world.offsets.kept = backup
    assert seen(world) == 5
    while deliver(pipeline(world)) is not None:
        check(world)
    assert (seen(world), world.committed(), world.published()) == (11, 11, [(0, 5), (5, 8), (8, 11)])
    assert len(world.processor.delivered) == 3


class Impatient:
    """Fails the test that goes round in circles."""

    def __init__(self, most: int) -> None:
        self._left = most

    def before(self, effect: Effect) -> None:  # noqa: ARG002 (the watcher's)
        self._left -= 1
        assert self._left, "the plan doesn't end"

    def after(self, effect: Effect) -> None:
        """Goes on."""


def test_a_database_that_went_back_before_a_batch_that_was_given_up_goes_on(world: World) -> None:
    world.produce(5)
    deliver(pipeline(world))
    backup = deepcopy((world.ledger._entries, world.ledger._writes, world.offsets.positions, world.offsets.kept))
    world.produce(3)
    world.processor.failures.append("no memory")
    giving_up = pipeline(world, failure_strategy="ignore", max_retries=0)
    batch = planned(giving_up)
    assert batch is not None
    with pytest.raises(BatchFailedError):
        giving_up.process(batch.id)
    giving_up.settle(batch.id)
    world.produce(3)
    deliver(pipeline(world))
    world.ledger._entries, world.ledger._writes, world.offsets.positions, world.offsets.kept = backup
    world.produce(2)
    watching = watched(pipeline(world), Impatient(2000))
    while deliver(watching) is not None:
        pass
    assert world.committed() == 13


# Another strategy


@pytest.mark.parametrize(
    ("before", "after"),
    [("checkpoint", "after-processing"), ("after-processing", "checkpoint"), ("checkpoint", "ignore")],
)
def test_an_open_batch_keeps_its_strategy_from_being_changed(world: World, before: Any, after: Any) -> None:
    world.processor.fold = lambda _: None
    world.produce(5)
    batch = planned(world.pipeline(commit_strategy=before))
    assert batch is not None
    changed = world.pipeline(commit_strategy=after)
    said = rf"was planned with commit-strategy: {before}.*{batch.id}.*set {before} again"
    for step in (changed.plan, lambda: changed.process(batch.id), lambda: changed.settle(batch.id)):
        with pytest.raises(WrongDefinitionError, match=said):
            step()
    deliver(world.pipeline(commit_strategy=before))
    assert world.committed() == 5


# What waits to be stored


@pytest.mark.parametrize(
    ("limit", "verdict"), [(10_000, Verdict.WARN), (20_000, Verdict.OK), (0, Verdict.OK), (-1, Verdict.OK)]
)
def test_a_monitor_is_told_of_a_state_that_nobody_stores(world: World, limit: int, verdict: Verdict) -> None:
    world.produce(5)
    described = pipeline(world, unsynced_state_max_age_ms=limit)
    batch = planned(described)
    assert batch is not None
    described.process(batch.id)
    with pytest.raises(Crash):
        watched(described, Before(Fence.commit)).settle(batch.id)
    world.clock.wait(15)
    (finding,) = status_of(described, 5).findings
    assert (finding.verdict, finding.verdict.exit_status) == (verdict, int(verdict is Verdict.WARN))
    if verdict is Verdict.WARN:
        assert batch.id in finding.reason
        assert "checkpoint.unsynced-state-max-age.ms" in finding.reason
    deliver(described)
    assert status_of(described, 5).findings == (Finding(Verdict.OK),)


@pytest.mark.parametrize(("waited", "limit", "is_late"), [(11, 10_000, True), (9, 10_000, False), (99, 0, False)])
@pytest.mark.parametrize("strategy", ["checkpoint", "after-processing"])
def test_a_state_that_waits_too_long_is_told_and_stored(
    world: World, caplog: pytest.LogCaptureFixture, waited: int, limit: int, *, is_late: bool, strategy: Any
) -> None:
    if strategy != "checkpoint":
        world.processor.fold, is_late = lambda _: None, False
    world.produce(5)
    described = world.pipeline(commit_strategy=strategy, unsynced_state_max_age_ms=limit)
    batch = planned(described)
    assert batch is not None
    described.process(batch.id)
    world.clock.wait(waited)
    assert status_of(described, 5).to_json()["open"]["overdue"] is is_late
    with caplog.at_level(logging.ERROR):
        described.settle(batch.id)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert bool(said) is is_late
    if said:
        assert all(text in said[0] for text in ("orders", batch.id, "11.0 s", "checkpoint.unsynced-state-max-age.ms"))
    assert world.committed() == 5
    assert status_of(described, 5).to_json()["open"] is None
