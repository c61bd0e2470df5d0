"""Waiting for records on behalf of many subscriptions: the client of a connection asks every three seconds for all.

All of it is for one event loop, whose process waits for whoever has deferred to it. Questions, which may take a while,
are asked in threads.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from tidegate.model.errors import TidegateError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import IsolationLevel, Scalar
from tidegate.ports import WatchedCluster

log = logging.getLogger(__name__)

POLL_SECONDS = 3.0
_LINGER_SECONDS = 120.0  # a plan that waits defers again and again, and needn't connect each time

Client = Mapping[str, Scalar]
"""The configuration of a client: addresses and credentials of a connection."""
Connect = Callable[[Client], WatchedCluster]


@dataclass(eq=False)
class Watch:
    """What one subscription learns of its partitions while it waits; those that aren't there have no end."""

    cluster: WatchedCluster
    isolation: IsolationLevel
    partitions: frozenset[TopicPartition]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def change(self, seconds: float) -> bool:
        """Whether an end has changed since this was asked before, waited for so long."""
        try:
            await asyncio.wait_for(self._changed.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def tell(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take over what was answered about all partitions of a cluster, or those that have changed."""
        news = {tp: end for tp, end in ends.items() if tp in self.partitions and self.ends.get(tp) != end}
        if news:
            self.ends |= news
            self._changed.set()


class Watcher:
    """Asks one cluster for the ends of all partitions that somebody watches, as long as anybody does."""

    def __init__(self, cluster: WatchedCluster, ended: Callable[[], object]) -> None:
        self.cluster = cluster
        self._ended = ended
        self._watches: set[Watch] = set()
        self._left = time.monotonic()
        self._is_away = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tidegate watches a cluster")

    @asynccontextmanager
    async def watch(self, partitions: Collection[TopicPartition], isolation: IsolationLevel) -> AsyncIterator[Watch]:
        """Have partitions watched within the context."""
        made = Watch(self.cluster, isolation, frozenset(partitions))
        self._watches.add(made)
        try:
            yield made
        finally:
            self._watches.discard(made)
            self._left = time.monotonic()

    async def _run(self) -> None:
        try:
            while self._watches or time.monotonic() - self._left < _LINGER_SECONDS:
                for isolation in {watch.isolation for watch in self._watches}:
                    await self._poll(isolation)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._ended()
            await asyncio.shield(asyncio.to_thread(self.cluster.close))

    async def _poll(self, isolation: IsolationLevel) -> None:
        watches = [watch for watch in self._watches if watch.isolation == isolation]
        wanted = frozenset().union(*(watch.partitions for watch in watches))
        try:
            ends = await asyncio.to_thread(self.cluster.ends, wanted, isolation)
        except TidegateError as error:
            if not self._is_away:
                log.warning("%s; it is asked again every %g s", error, POLL_SECONDS)
            self._is_away = True
            return
        if self._is_away:
            log.info("the broker answers again")
        self._is_away = False
        for watch in watches:
            watch.tell(ends)


_WATCHERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[frozenset[tuple[str, Scalar]], Watcher]] = (
    WeakKeyDictionary()
)


def watcher(client: Client, connect: Connect) -> Watcher:
    """The one that watches with this client in the running event loop; it is made if there is none."""
    watchers = _WATCHERS.setdefault(asyncio.get_running_loop(), {})
    key = frozenset(client.items())
    if key not in watchers:
        watchers[key] = Watcher(connect(client), lambda: watchers.pop(key, None))
    return watchers[key]
