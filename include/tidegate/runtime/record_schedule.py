"""Asking for runs by what waits: for whom, and how often, `Backlog` decides; here it is asked what there is."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing

from tidegate.kafka.outbox import KafkaOutbox
from tidegate.kafka.watch import WatchClient
from tidegate.ledger.holders import is_made
from tidegate.ledger.offsets import SqlOffsets
from tidegate.ledger.run_log import SqlRunLog
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import TidegateError, message
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.subscription import RecordSchedule
from tidegate.ports import Committed, Connections, WatchedCluster
from tidegate.runtime.backlog import Backlog, Waiting
from tidegate.runtime.waiting import Wait, resolved
from tidegate.runtime.watching import Connect, Watch, watcher
from tidegate.steps.selection import partitions_of, readable_ends

log = logging.getLogger(__name__)

_SECONDS_OF_A_LOOK = 60.0  # so often everything is asked anew: the definition, its partitions, the group's positions
_PAUSE_SECONDS = 5.0  # between two looks at a run that is under way, at a retry topic's clock, or at what has failed

IsRunning = Callable[[], Awaitable[bool]]


async def due_runs(
    name: str, schedule: RecordSchedule, connections: Connections, is_running: IsRunning, connect: Connect = WatchClient
) -> AsyncIterator[Waiting]:
    """What waits, each time that a run is due for it; endless.

    None is while one is under way, and none twice for the same positions within the time of the schedule. What this
    process can't do, or a broker that doesn't answer, is said once, and tried again.
    """
    backlog, said = Backlog(schedule), ""
    while True:
        try:
            async for due in _look(name, backlog, connections, is_running, connect):
                yield due
            said = ""
        except TidegateError as error:
            if str(error) != said:
                log.warning("%s", message(error, remedy="no run starts by what waits until this is over"))
            said = str(error)
            await asyncio.sleep(_PAUSE_SECONDS)


async def _look(
    name: str, backlog: Backlog, connections: Connections, is_running: IsRunning, connect: Connect
) -> AsyncIterator[Waiting]:
    """Watch for a while, with the definition as it is now."""
    wait = await asyncio.to_thread(resolved, name, connections)
    end = time.monotonic() + _SECONDS_OF_A_LOOK
    watching = watcher(wait.client, connect)
    partitions = await asyncio.to_thread(partitions_of, wait.subscription, watching.cluster)
    positions = await asyncio.to_thread(_positions, wait, watching.cluster, partitions)
    await asyncio.to_thread(_note, wait)
    async with watching.watch(partitions, wait.subscription.consumer.isolation_level) as watch:
        while (now := time.monotonic()) < end:
            if watch.ends:
                backlog.note(now, await _readable(wait, watch, positions))
            left = backlog.seconds_left(now, positions)
            if left <= 0:
                positions = await asyncio.to_thread(_positions, wait, watch.cluster, partitions)
                left = backlog.seconds_left(now, positions)
            if left <= 0:
                if backlog.pause(now, positions) <= 0 and not await is_running():
                    now = time.monotonic()  # to be told took its time
                    backlog.ask(now, positions)
                    yield backlog.waiting(now, positions)
                left = _PAUSE_SECONDS
            pause = _PAUSE_SECONDS if wait.subscription.retry_topics else _SECONDS_OF_A_LOOK
            await watch.change(min(left, pause, end - now))


def _note(wait: Wait) -> None:
    """Note that the broker has answered, and so that somebody looks, if there is a ledger to note it in."""
    if is_made(wait.settings.ledger):
        SqlRunLog(wait.settings.ledger).answered(wait.subscription.name)


def _positions(
    wait: Wait, cluster: WatchedCluster, partitions: tuple[TopicPartition, ...]
) -> dict[TopicPartition, int]:
    """The group's, wherever its commit strategy keeps them."""
    subscription = wait.subscription
    if subscription.commit_policy.store is PositionStore.KAFKA:
        return cluster.committed(subscription.consumer.group_id, partitions)
    if not is_made(wait.settings.ledger):
        return {}
    with closing(KafkaOutbox(wait.client, 0)) as unused:
        store = SqlOffsets(wait.settings.ledger, subscription.name, subscription.consumer.group_id, unused)
        return {tp: position.offset for tp, position in store.committed(partitions).items()}


async def _readable(wait: Wait, watch: Watch, positions: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """As far as each partition may be read now, which in a retry topic depends on the time."""
    if not wait.subscription.retry_topics:
        return dict(watch.ends)
    marks = {tp: Watermarks(0, end) for tp, end in watch.ends.items()}
    committed = {tp: Committed(offset) for tp, offset in positions.items()}
    return await asyncio.to_thread(readable_ends, wait.subscription, watch.cluster, committed, marks, wait.time)
