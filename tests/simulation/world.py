"""Everything outside of the steps, in memory: it can be kept, compared and gone back to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from simulation.audit import Audit
from simulation.job import AcknowledgingJob
from simulation.orders import FROM_THE_JOB, READS, Order
from simulation.redrives import Redrives
from simulation.script import TOPIC, Script, TopicEvent
from simulation.spark import SimulatedSpark
from simulation.table import SimulatedTable, StagedBesideTable
from simulation.tokens import Tokens
from simulation.unkept import UnkeptStores
from simulation.values import Values
from simulation.violation import ViolationError
from tidegate.lake.log_lake import LogLake
from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import PositionStore
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock, Committed, Lake, StagedOutput
from tidegate.runtime.pipeline import Pipeline
from tidegate.strategies.failure.dead_letters import DeadLetters
from tidegate.testing.clock import MemoryClock
from tidegate.testing.effects import Effect
from tidegate.testing.lake import MemoryLake
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.run_log import MemoryRunLog
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryPartition, MemoryTopics, Record

OUTPUT = "file:///lake/orders"
_UNREAD = {"offsets": "commits", "landing": "manifests"}  # logs for tests, which no step reads
_CHANGED_BY = {
    "offsets": ("offsets", "unkept"),
    "fence": ("offsets", "unkept", "topics", "audit"),
    "landing": ("landing",),
    "writer": ("landing",),
    "lake": ("lake", "audit"),
    "staged": ("lake", "audit"),
    "log": ("log", "lake", "audit"),
    "ledger": ("ledger",),
    "processor": ("spark", "lake", "audit"),
}
_CHANGED_BY_READING = {
    "fence": ("audit",),
    "ledger": ("ledger",),
    "lake": ("lake",),
    "staged": ("lake",),
    "log": ("lake", "audit"),
}  # who has read; what a look finds empty, it makes; what is about to be published


@dataclass(frozen=True, slots=True)
class Saved:
    """A part of the world as it was at one time."""

    data: dict[str, object]
    hash: int


@dataclass(frozen=True, slots=True)
class Home:
    """What there is in the group's own cluster, and what is known of it, while the connection leads elsewhere."""

    topics: dict[str, Any]
    positions: dict[TopicPartition, Committed]
    pending: Any
    audit: dict[str, Any]


class World:
    """One subscription's topic, group, landing, lake, ledger and Spark, and what was promised about them.

    `answer` is what a person says of a batch that stops or asks; `names` are those that the definition has had. Where
    a person `redrives` dead letters, those lie in their topic; what became of that is no part of what can be gone back
    to.
    """

    def __init__(
        self,
        subscription: Subscription,
        events: tuple[TopicEvent, ...],
        tokens: Tokens,
        *,
        fencing: bool = True,
        answer: Resolution = Resolution.REDELIVER,
        acknowledges: bool = False,
        redrives: bool = False,
        table: bool = False,
    ) -> None:
        self.subscription = subscription
        self.names = frozenset({subscription.name})
        self.home: Home | None = None
        self.answer = answer
        self.tokens = tokens
        self.clock = MemoryClock()
        self.topics = MemoryTopics()
        for topic in self.failed_record_topics:
            self.topics.create(topic)
        self.script = Script(self.topics, events)
        produced_to = self.topics if subscription.retry_topics or redrives else None
        self.redrives = Redrives(subscription, self.topics, self.clock) if redrives else None
        self.offsets = MemoryOffsets(
            subscription.consumer.group_id,
            fencing=fencing,
            topics=produced_to,
            keeps_state=subscription.commit_policy.store is PositionStore.LEDGER,
        )
        self.unkept = UnkeptStores(produced_to)
        self.landing = MemoryLanding()
        self.lake = StagedBesideTable() if table else MemoryLake()
        self.log = SimulatedTable(self.lake) if isinstance(self.lake, StagedBesideTable) else None
        self.ledger = MemoryLedger(self.clock.now)
        self.spark = SimulatedSpark(self.landing, self.lake, acknowledges=acknowledges)
        self.audit = Audit(subscription, fencing=fencing)
        self._parts = {
            "topics": self.topics,
            "script": self.script,
            "offsets": self.offsets,
            "unkept": self.unkept,
            "landing": self.landing,
            "lake": self.lake,
            **({} if self.log is None else {"log": self.log}),
            "ledger": self.ledger,
            "spark": self.spark,
            "audit": self.audit,
        }
        self._values = Values(self.clock, *self._parts.values())
        self._saved: dict[str, Saved] = {}
        self._dirty = set(self._parts)

    @property
    def failed_record_topics(self) -> list[str]:
        """The topics that failed records go to, by the definition or by the person's answer."""
        answered = [DeadLetters.of(self.subscription).topic] if self.answer is Resolution.DEAD_LETTER else []
        return list(dict.fromkeys([*self.subscription.produced_topics, *answered]))

    @property
    def retry_partitions(self) -> list[TopicPartition]:
        """The partitions of the retry topics."""
        return [at for at in self.topics.logs if at.topic in self.subscription.retry_topics]

    @property
    def read(self) -> dict[TopicPartition, MemoryPartition]:
        """The logs that the subscription reads, in order."""
        topics = (TOPIC, *self.subscription.retry_topics)
        return {at: log for at, log in sorted(self.topics.logs.items()) if at.topic in topics}

    @property
    def produced(self) -> list[Outgoing]:
        """The dead letters and the retries, in the order in which they came."""
        return self.offsets.produced + self.unkept.outbox.produced

    def pipeline(self, clock: Clock, run: str) -> Pipeline:
        """The steps in this world, by a clock of their own; `run` is the name of the run."""
        isolation = self.subscription.consumer.isolation_level
        commits_nothing = self.subscription.commit_policy.store is PositionStore.NONE
        return Pipeline(
            subscription=self.subscription,
            output=OUTPUT,
            source=MemorySource(self.topics, isolation_level=isolation, clock=clock),
            offsets=self.unkept.of(run) if commits_nothing else self.offsets,
            landing=self.landing,
            lake=self.lake_of(self.lake, self.lake, lambda _, log: log),
            staged=self.lake,
            ledger=self.ledger,
            run_log=MemoryRunLog(clock.now),
            processor=AcknowledgingJob(self.spark) if self.spark.acknowledges else self.spark,
            clock=clock,
        )

    def lake_of(self, lake: Lake, staged: StagedOutput, watched: Callable[[str, object], Any]) -> Lake:
        """The lake as the steps have it: the one that is watched, or a table beside it whose log is watched too."""
        return lake if self.log is None else LogLake(watched("log", self.log), staged)

    @property
    def staged(self) -> set[str]:
        """The names of the folders in which something is staged or set aside."""
        if self.log is not None:
            return self.log.left(OUTPUT)
        staged = {uri.rpartition("/")[2] for uri, attempts in self.lake.staged.items() if attempts}
        return staged | {*self.lake.abandoned}

    def stay(self) -> bool:
        """Whether somebody has accepted the cluster that the connection leads to, which is the group's own then.

        Raises ViolationError if the group was moved there before.
        """
        group = self.subscription.consumer.group_id
        if self.home is None or self._noted_cluster(group) != self.topics.cluster_id:
            return False
        self.home = None
        if self.offsets.positions:
            raise ViolationError(f"another cluster was read before anybody accepted it: {self.offsets.positions}")
        return True

    def _noted_cluster(self, group: str) -> str | None:
        return self.ledger.look(self.subscription.name).clusters.get(group)

    def touched(self, effect: Effect) -> None:
        """An effect has happened; where it only reads, little can have changed."""
        changed = _CHANGED_BY_READING if str(effect) in READS else _CHANGED_BY
        self._dirty.update(changed.get(effect.port, ()))

    def noted(self) -> None:
        """The audit has noted something."""
        self._dirty.add("audit")

    def touched_all(self) -> None:
        """Anything may have changed."""
        self._dirty.update(self._parts)

    def save(self) -> tuple[Saved, ...]:
        """The world as it is, to go back to."""
        for name in self._dirty:
            part = vars(self._parts[name])
            ignored = _UNREAD.get(name)
            hashed = hash(tuple([self._values.hash(held) for key, held in part.items() if key != ignored]))
            before = self._saved.get(name)
            if before is None or before.hash != hashed:
                self._saved[name] = Saved(self._values.copy(part), hashed)
        self._dirty.clear()
        return tuple([self._saved[name] for name in self._parts])

    def restore(self, saved: tuple[Saved, ...]) -> None:
        """Go back; whoever holds a part of the world still holds it."""
        for (name, part), then in zip(self._parts.items(), saved, strict=True):
            if name in self._dirty or self._saved.get(name) is not then:
                vars(part).clear()
                vars(part).update(self._values.copy(then.data))
                self._saved[name] = then
        self._dirty.clear()

    def hash(self, value: object) -> int:
        """Equal for equal values."""
        return self._values.hash(value)

    @contextmanager
    def disturbed(self, order: Order, port: str) -> Iterator[None]:
        """The next effect, of this port, happens as ordered."""
        refused = max(self.offsets.positions, default=None) if order is Order.PARTLY else None
        self.spark.order = order if order in FROM_THE_JOB else Order.GO
        if refused is not None:
            self.offsets.refuse(refused, "simulated")
        committed_to = self.redrives.group if self.redrives is not None and port == "redrive_fence" else self.offsets
        if order is Order.LATE:
            committed_to.delay_end()
        if order is Order.REPEATED:
            committed_to.repeat_end()
        try:
            yield
        finally:
            self.spark.order = Order.GO
            committed_to.commit_as_usual()


@dataclass(frozen=True, slots=True)
class Arrive:
    """The next event of the topic's script happens."""

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        return str(world.script.go_on())


@dataclass(frozen=True, slots=True)
class FinishLate:
    """A Spark driver that outlived its task finishes."""

    number: int = 0

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        manifest = world.spark.late[self.number]
        world.tokens.at("driver", manifest.delivery.token)
        world.spark.finish(self.number)
        return f"the driver of batch {manifest.batch.id[:6]}, delivery {manifest.delivery.number}, finishes late"


@dataclass(frozen=True, slots=True)
class EndLate:
    """The end of a transaction arrives that was sent long ago."""

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        world.offsets.end_late()
        world.audit.ended_late(world)
        return "a transaction's end arrives late"


@dataclass(frozen=True, slots=True)
class EndRedriveLate:
    """The end of a redrive's transaction arrives that was sent long ago."""

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        if world.redrives is None:
            raise AssertionError("nobody redrives")
        world.redrives.group.end_late()
        world.redrives.check()
        return "the end of a redrive's transaction arrives late"


@dataclass(frozen=True, slots=True)
class LoseLedger:
    """The ledger is gone; an empty one takes its place."""

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        world.tokens.at("ledger", world.audit.lost_ledgers)
        world.audit.ledger_lost(world)
        fresh = vars(MemoryLedger(world.clock.now))
        vars(world.ledger).clear()
        vars(world.ledger).update(fresh)
        return "the ledger is lost"


@dataclass(frozen=True, slots=True)
class Reset:
    """A foreign tool moves some partitions of the group, which have to have a position already."""

    offsets: tuple[tuple[TopicPartition, int], ...]

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        moved = {at: offset for at, offset in self.offsets if at in world.offsets.positions}
        world.audit.before_reset(world, moved)
        world.offsets.reset(moved)
        return "a foreign tool resets the group: " + ", ".join(f"{at} to {offset}" for at, offset in moved.items())


@dataclass(frozen=True, slots=True)
class Expire:
    """The group's offsets expire."""

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        world.offsets.expire()
        world.audit.offsets_expired(world)
        return "the group's offsets expire"


@dataclass(frozen=True, slots=True)
class Rename:
    """Somebody gives the definition another name; whoever runs goes on under the one that it began with.

    Whoever renames it creates the topics for failed records whose names follow from that.
    """

    name: str

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        world.subscription = replace(world.subscription, name=self.name)
        world.names |= {self.name}
        for topic in world.failed_record_topics:
            if not any(at.topic == topic for at in world.topics.logs):  # a cluster may tell no ids
                world.topics.create(topic)
        return f"the definition is renamed: {self.name}"


@dataclass(frozen=True, slots=True)
class Recreate:
    """The topic is deleted, and the group's offsets with it, and created again, which the definition goes on after."""

    partitions: int
    records: int

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        open_now = ", ".join(f"batch {batch.id[:7]} is {batch.condition}" for batch in world.ledger.open_batches())
        world.topics.delete(TOPIC)
        world.script.value += b" again"
        world.topics.create(TOPIC, self.partitions)
        for partition in range(self.partitions):
            world.topics.produce(TOPIC, *[Record(world.script.value)] * self.records, partition=partition)
        world.offsets.forget(TOPIC)
        world.subscription = replace(world.subscription, on_data_loss="reset")
        world.audit.topic_recreated(world)
        what = f"{self.partitions} partitions, {self.records} records in each"
        return f"the topic is deleted, and created again: {what}; {open_now or 'no batch is open'}"


@dataclass(frozen=True, slots=True)
class GoElsewhere:
    """The connection is pointed at another cluster, with a topic of the same name; it may tell no ids of topics."""

    partitions: int
    records: int
    tells_ids: bool

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        topics = world.topics
        offsets = world.offsets
        world.home = Home(dict(vars(topics)), dict(offsets.positions), offsets.pending, dict(vars(world.audit)))
        topics.cluster_id, topics.logs, topics.ids = "elsewhere", {}, {}
        for name in (TOPIC, *world.failed_record_topics):
            topics.create(name, self.partitions)
        for partition in range(self.partitions):
            topics.produce(TOPIC, *[Record(world.script.value)] * self.records, partition=partition)
        if not self.tells_ids:
            topics.ids = {}
        offsets.positions, offsets.pending = {}, None
        world.audit.topic_recreated(world)
        return f"the connection leads to another cluster: {self.partitions} partitions, {self.records} records in each"


@dataclass(frozen=True, slots=True)
class GoHome:
    """The connection is pointed back; if nobody has accepted the other cluster, nothing may have been read there."""

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        home, world.home = world.home, None
        if home is None:
            raise AssertionError("the connection leads home")
        if world.offsets.positions:
            raise ViolationError(f"another cluster was read, which nobody had accepted: {world.offsets.positions}")
        for part, then in ((world.topics, home.topics), (world.audit, home.audit)):
            vars(part).clear()
            vars(part).update(then)
        world.offsets.positions, world.offsets.pending = home.positions, home.pending
        world.script.transactions = []  # of the other cluster
        world.audit.returned(world)
        return "the connection leads home again"


@dataclass(frozen=True, slots=True)
class Pass:
    """Time passes."""

    seconds: float

    def happen(self, world: World) -> str:
        """What happened, for the history."""
        world.clock.wait(self.seconds)
        return f"{timedelta(seconds=self.seconds)} pass"


Act = (
    Arrive
    | FinishLate
    | EndLate
    | EndRedriveLate
    | LoseLedger
    | Reset
    | Expire
    | Rename
    | Recreate
    | GoElsewhere
    | GoHome
    | Pass
)
