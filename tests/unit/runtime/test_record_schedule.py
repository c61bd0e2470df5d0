"""Runs are asked for by what waits: none while one is under way, none twice, and whatever was away is tried again."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.ledger.offsets import SqlOffsets
from tidegate.ledger.run_log import SqlRunLog
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import RecordSchedule
from tidegate.ports import Committed, Connection
from tidegate.runtime import backlog, record_schedule, watching
from tidegate.runtime.record_schedule import due_runs
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTopics, Record
from tidegate.testing.watched_cluster import MemoryWatchedCluster

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from tidegate.runtime.backlog import Waiting

DEFINITION = "topics: [orders]\nconsumer: {group.id: orders-lake}\nprocessing: {output: data/lake/orders}\n"
CONNECTIONS = MemoryConnections(Connection("kafka_default", "kafka", "broker", 9092, None, None, {}))
AT = TopicPartition("orders", 0)
SECONDS = 120


class World:
    """A topic that a group reads, what runs were asked for, and whether one is under way."""

    def __init__(self, file: Path) -> None:
        self.topics = MemoryTopics()
        self.topics.create("orders")
        self.positions = {AT: Committed(0)}
        self.due: list[Waiting] = []
        self.is_running = False
        self.file = file
        file.write_text(DEFINITION)

    def produce(self, count: int) -> None:
        self.topics.produce("orders", *[Record(b"v")] * count)

    def take(self, end: int) -> None:
        self.positions = {AT: Committed(end)}

    def during(self, story: Callable[[], Coroutine[Any, Any, None]], schedule: RecordSchedule) -> None:
        """Ask for runs while the story goes on."""

        async def watch() -> None:
            async def is_running() -> bool:
                return self.is_running

            def connect(_: watching.Client) -> MemoryWatchedCluster:
                return MemoryWatchedCluster(self.topics, lambda group: {"orders-lake": self.positions}[group])

            async for waiting in due_runs("orders", schedule, CONNECTIONS, is_running, connect):
                self.due.append(waiting)

        async def both() -> None:
            watches = asyncio.create_task(watch())
            await asyncio.wait_for(story(), 2 * SECONDS)
            watches.cancel()
            await asyncio.gather(watches, return_exceptions=True)

        asyncio.run(both())


@pytest.fixture
def world(tmp_path: Path, sqlite_ledger: str, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LEDGER", sqlite_ledger)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(record_schedule, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(backlog, "_PACE_SECONDS", 1.0)
    folder = tmp_path / "include/subscriptions"
    folder.mkdir(parents=True)
    return World(folder / "orders.yaml")


async def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_a_run_is_asked_for_once_enough_wait_and_again_once_it_has_taken_a_batch_of_more(world: World) -> None:
    async def story() -> None:
        world.produce(9)
        await asyncio.sleep(0.2)
        assert not world.due
        world.produce(26)
        await until(lambda: world.due)
        await asyncio.sleep(0.2)
        assert [each.records for each in world.due] == [35], "it was asked for twice"
        world.take(20)
        await until(lambda: len(world.due) == 2)
        assert world.due[-1].records == 15
        world.take(35)
        await asyncio.sleep(0.2)
        assert len(world.due) == 2

    world.during(story, RecordSchedule(10, None))


def test_while_a_run_is_under_way_none_is_asked_for(world: World) -> None:
    async def story() -> None:
        world.is_running = True
        world.produce(10)
        await asyncio.sleep(0.3)
        assert not world.due
        world.is_running = False
        await until(lambda: world.due)

    world.during(story, RecordSchedule(10, None))


def test_one_that_has_waited_is_enough_and_one_that_took_nothing_comes_again(world: World) -> None:
    async def story() -> None:
        await asyncio.sleep(0.2)
        began = time.monotonic()
        world.produce(1)
        await until(lambda: world.due)
        assert time.monotonic() - began > 0.9
        await until(lambda: len(world.due) == 2)
        assert time.monotonic() - began > 1.9

    world.during(story, RecordSchedule(None, 1000))


def test_a_definition_that_is_wrong_for_a_while_and_a_broker_that_is_away_are_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        await until(lambda: "consumer.group.id is missing" in caplog.text)
        world.topics.reachable = False
        world.file.write_text(DEFINITION)
        await until(lambda: "unreachable" in caplog.text)
        await asyncio.sleep(0.3)
        assert caplog.text.count("unreachable") == 1
        assert caplog.text.count("consumer.group.id is missing") == 1
        world.topics.reachable = True
        world.produce(10)
        await until(lambda: world.due)

    world.file.write_text("topics: [orders]\nprocessing: {output: data/lake/orders}\n")
    world.during(story, RecordSchedule(10, None))


@pytest.mark.parametrize("strategy", ["after-processing", "checkpoint"])
def test_a_first_run_is_asked_for_before_anybody_has_made_a_ledger(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    async def story() -> None:
        await until(lambda: world.due)

    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{tmp_path}/not-yet/ledger.db")
    world.positions = {}
    world.file.write_text(f"{DEFINITION}commit-strategy: {strategy}\n")
    world.during(story, RecordSchedule(10, None))
    assert not (tmp_path / "not-yet").exists()


def test_positions_are_those_of_the_commit_strategy_and_who_looks_is_noted(world: World, sqlite_ledger: str) -> None:
    async def story() -> None:
        await until(lambda: world.due)

    world.produce(12)
    world.take(12)  # in Kafka, where this strategy doesn't keep them
    offsets = SqlOffsets(sqlite_ledger, "orders", "orders-lake", MemoryOutbox(world.topics))
    with offsets.fence() as fence:
        fence.commit({AT: 1}, "receipt")
    world.file.write_text(f"{DEFINITION}commit-strategy: checkpoint\n")
    world.during(story, RecordSchedule(10, None))
    assert [each.records for each in world.due] == [11]
    contact = SqlRunLog(sqlite_ledger).contact("orders")
    assert contact is not None
    assert contact.has_answered
