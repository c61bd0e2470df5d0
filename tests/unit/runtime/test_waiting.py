"""Many subscriptions wait for records by one client of their connection, and each learns of its own."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.model.errors import TidegateError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Connection
from tidegate.runtime import waiting, watching
from tidegate.runtime.waiting import await_news
from tidegate.steps.await_records import Awaited
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.topics import MemoryTopics, Record
from tidegate.testing.watched_cluster import MemoryWatchedCluster

DEFINITION = """\
topics: [{name}]
connection: {connection}
consumer: {{group.id: {name}-lake}}
processing: {{output: data/lake/{name}}}
"""
RETRY_TOPIC = "orders_retry_1000"
RETRIED = f"failure-strategy: delayed-retry-topic\ndelayed-retry-topic.topics: [{RETRY_TOPIC}]\n"
CONNECTIONS = MemoryConnections(
    Connection("first", "kafka", "broker", 9092, None, None, {}),
    Connection("second", "kafka", "broker", 9093, None, None, {}),
)
SECONDS = 120


class World:
    """Topics in memory with a definition each, the clients that were made, and how often each asked for ends."""

    def __init__(self, folder: Path) -> None:
        self.topics = MemoryTopics()
        self.clients: list[MemoryWatchedCluster] = []
        self._folder = folder / "include/subscriptions"
        self._folder.mkdir(parents=True)

    def define(self, name: str, connection: str = "first", more: str = "") -> None:
        self.topics.create(name)
        (self._folder / f"{name}.yaml").write_text(DEFINITION.format(name=name, connection=connection) + more)

    def connect(self, _client: watching.Client) -> MemoryWatchedCluster:
        self.clients.append(MemoryWatchedCluster(self.topics))
        return self.clients[-1]

    async def wait(self, name: str, *, seconds: float = SECONDS, **positions: int) -> bool:
        """Wait for more than these offsets: `wait("orders", orders=3)` of partition 0."""
        offsets = {TopicPartition(topic, 0): offset for topic, offset in (positions or {name: 0}).items()}
        awaited = Awaited(offsets, datetime.now(UTC) + timedelta(seconds=seconds))
        return await await_news(name, awaited, CONNECTIONS, self.connect)


@pytest.fixture
def world(tmp_path: Path, sqlite_ledger: str, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LEDGER", sqlite_ledger)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(waiting, "_PAUSE_SECONDS", 0.02)
    return World(tmp_path)


def run(coroutine: Coroutine[Any, Any, object]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 2 * SECONDS))


async def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_however_many_wait_on_a_connection_it_has_one_client_and_records_wake_who_waits_for_them(world: World) -> None:
    names = [f"topic-{number}" for number in range(20)]
    for name in names:
        world.define(name)
    world.define("elsewhere", "second")

    async def many() -> None:
        waits = {name: asyncio.create_task(world.wait(name)) for name in (*names, "elsewhere")}
        await until(lambda: len(world.clients) == 2)
        world.topics.produce("topic-7", Record(b"v"))
        assert await waits["topic-7"]
        await asyncio.sleep(0.2)
        assert [name for name, wait in waits.items() if wait.done()] == ["topic-7"]
        for wait in waits.values():
            wait.cancel()
        await asyncio.gather(*waits.values(), return_exceptions=True)

    run(many())
    assert len(world.clients) == 2


def test_who_waits_again_finds_the_client_there(world: World) -> None:
    world.define("orders")

    async def twice() -> None:
        assert not await world.wait("orders", seconds=0.1)
        assert not await world.wait("orders", seconds=0.1)

    run(twice())
    assert len(world.clients) == 1


def test_a_wait_ends_at_its_deadline_and_at_once_if_that_has_passed_before_a_triggerer_took_it(world: World) -> None:
    world.define("orders")

    async def late() -> None:
        assert not await world.wait("orders", seconds=-60)
        assert not await world.wait("orders", seconds=0.3)

    run(late())


def test_a_partition_that_the_plan_did_not_see_ends_the_wait(world: World) -> None:
    world.define("orders")
    world.topics.add_partitions("orders", 1)

    async def grown() -> None:
        assert await world.wait("orders")

    run(grown())


def test_a_position_beyond_the_end_ends_the_wait(world: World) -> None:
    world.define("orders")

    async def created_again() -> None:
        assert await world.wait("orders", orders=7)

    run(created_again())


def test_an_outage_is_waited_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.define("orders")
    world.topics.reachable = False

    async def outage() -> None:
        wait = asyncio.create_task(world.wait("orders"))
        await until(lambda: "unreachable" in caplog.text)
        world.topics.produce("orders", Record(b"v"))
        assert not wait.done()
        world.topics.reachable = True
        assert await wait

    run(outage())
    assert caplog.text.count("unreachable") == 1


@pytest.mark.long
def test_a_record_of_a_retry_topic_is_waited_for_until_it_is_due(world: World) -> None:
    world.define("orders", more=RETRIED)
    world.topics.create(RETRY_TOPIC)
    world.topics.produce(RETRY_TOPIC, Record(b"v", timestamp=int(time.time() * 1000)))

    async def due() -> None:
        began = time.monotonic()
        assert await world.wait("orders", orders=0, **{RETRY_TOPIC: 0})
        assert time.monotonic() - began > 0.8

    run(due())


def test_what_this_process_does_not_know_is_said(world: World) -> None:
    with pytest.raises(TidegateError, match="no subscription 'orders'"):
        run(world.wait("orders"))
    world.define("orders", "third")
    with pytest.raises(WrongDefinitionError, match="no connection third"):
        run(world.wait("orders"))
