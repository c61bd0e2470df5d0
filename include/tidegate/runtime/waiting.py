"""Waiting for records outside of a run, for as long as a plan asked for; what comes of it is a hint to plan anew."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ParamSpec

from tidegate.config.settings import Settings
from tidegate.kafka.watch import WatchClient
from tidegate.ledger.holders import is_made
from tidegate.ledger.sql import SqlLedger
from tidegate.model.errors import BrokerUnavailableError
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, Connections, Definitions
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.watching import Client, Connect, Watch, watcher
from tidegate.security.client import kafka_client
from tidegate.steps.await_records import Awaited
from tidegate.steps.decide import has_records
from tidegate.steps.selection import partitions_of, readable_ends

_SECONDS_BETWEEN_TOPICS = 15.0  # new topics and partitions, and whether there is to be an end
_PAUSE_SECONDS = 2.0  # whether a record of a retry topic is due

_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class Wait:
    """A subscription, and how it is waited for: `client` is the configuration of its connection.

    `now` was the ledger's time at `at`, by the monotonic clock.
    """

    subscription: Subscription
    settings: Settings
    client: Client
    definitions: Definitions
    now: datetime
    at: float

    def time(self) -> datetime:
        """The ledger's time now."""
        return self.now + timedelta(seconds=time.monotonic() - self.at)


def resolved(name: str, connections: Connections) -> Wait:
    """The subscription of this name, as this process finds it by its environment. Raises TidegateError."""
    settings = Settings.from_environment(os.environ)
    definitions = AllDefinitions(settings)
    subscription = definitions.load(name)
    client = kafka_client(connections.get(subscription.connection))
    now = (
        SqlLedger(settings.ledger).now() if is_made(settings.ledger) else datetime.now(UTC)
    )  # of a file yet to be made
    return Wait(subscription, settings, client, definitions, now, time.monotonic())


async def await_news(name: str, awaited: Awaited, connections: Connections, connect: Connect = WatchClient) -> bool:
    """Whether there may be something to plan anew for before the deadline.

    That is a record to read, an end that lies before the position, a partition that wasn't there, or a definition that
    was unsubscribed. A broker that doesn't answer is waited for. Raises TidegateError where this process can't wait for
    this subscription.
    """
    wait = await asyncio.to_thread(resolved, name, connections)
    deadline = wait.at + (awaited.deadline - wait.now).total_seconds()
    isolation = wait.subscription.consumer.isolation_level
    positions = {tp: Committed(offset) for tp, offset in awaited.positions.items() if offset is not None}
    pause = _PAUSE_SECONDS if wait.subscription.retry_topics else _SECONDS_BETWEEN_TOPICS
    looked = -math.inf
    async with watcher(wait.client, connect).watch(awaited.positions, isolation) as watch:
        while (left := deadline - time.monotonic()) > 0:
            if await _has_news(wait, positions, watch):
                return True
            if time.monotonic() - looked >= _SECONDS_BETWEEN_TOPICS:
                looked = time.monotonic()
                if await _answered(_has_changed, wait, awaited.positions.keys(), watch):
                    return True
            await watch.change(min(left, pause))
    return False


async def _has_news(wait: Wait, positions: Mapping[TopicPartition, Committed], watch: Watch) -> bool:
    if not has_records(positions, watch.ends) and not _has_fewer(positions, watch):
        return False
    return not wait.subscription.retry_topics or await _answered(_is_due, wait, positions, watch)


async def _answered(
    question: Callable[_Arguments, bool], *arguments: _Arguments.args, **named: _Arguments.kwargs
) -> bool:
    """Whether the answer is yes; a broker that gives none is asked again."""
    try:
        return await asyncio.to_thread(question, *arguments, **named)
    except BrokerUnavailableError:
        return False


def _has_fewer(positions: Mapping[TopicPartition, Committed], watch: Watch) -> bool:
    return any(tp in positions and end < positions[tp].offset for tp, end in watch.ends.items())


def _is_due(wait: Wait, positions: Mapping[TopicPartition, Committed], watch: Watch) -> bool:
    """Whether any of the records that wait may be read now, which those of a retry topic may not be yet."""
    marks = {tp: Watermarks(0, end) for tp, end in watch.ends.items()}
    ends = readable_ends(wait.subscription, watch.cluster, positions, marks, wait.time)
    return has_records(positions, ends) or _has_fewer(positions, watch)


def _has_changed(wait: Wait, known: Collection[TopicPartition], watch: Watch) -> bool:
    if wait.definitions.is_draining(wait.subscription.name):
        return True
    return set(partitions_of(wait.subscription, watch.cluster)) != set(known)
