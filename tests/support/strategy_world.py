"""What tests of strategies on the real broker share: scenes with a job of their own, and scenarios played at once."""

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from signal import Signals
from time import monotonic
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from broker_world import _ONE_MIGRATION, Scene
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from crashing import Child, Point, Task, opened

from tidegate.model.batch import Batch
from tidegate.model.errors import BatchFailedError, RecordsFailedError
from tidegate.model.records import Headers, last
from tidegate.ports import Processor
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.steps.plan import Plan
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker

UNTIL_THE_BROKER_ABORTS = "offsets sent, not committed"

LATE = {None, "StaleError", "OvertakenError", "TransitionError", "UnavailableError", "BrokerUnavailableError"}
"""How a run ends that others overtook: all was done, it was refused, its files were swept away, it waited too long."""

_AT_A_TIME = 5  # runs on a broker mostly wait
_SECONDS = 120


class RejectingProcessor(CopyingProcessor):
    """A job that rejects the second record of each partition, by its value."""

    def is_bad(self, records: pa.Table) -> pa.Array:
        """Which of the landed records are rejected."""
        return pc.ends_with(pc.cast(records["value"], "string"), "/1")

    def run(self, manifest_uri: str, *args: Any) -> None:
        """Copy, then move what is rejected to where such records belong."""
        super().run(manifest_uri, *args)
        staging = Path(json.loads(Path(manifest_uri.removeprefix("file://")).read_text())["staging"][len("file://") :])
        (attempt,) = staging.iterdir()
        told = attempt / "_result" / "part-00000.txt"
        result = json.loads(told.read_text())
        for number, file in enumerate(result["files"]):
            path = attempt / file["path"]
            table = pq.read_table(path)
            is_bad = self.is_bad(table)
            pq.write_table(table.filter(pc.invert(is_bad)), path)
            file["bytes"] = path.stat().st_size
            bad = table.filter(is_bad)
            if not bad.num_rows:
                continue
            apart = attempt / "_rejected" / f"part-{number:05}.parquet"
            apart.parent.mkdir(exist_ok=True)
            pq.write_table(bad.append_column("reason", [["it is the second"] * bad.num_rows]), apart)
            result["rejected_files"].append({"path": f"_rejected/{apart.name}", "bytes": apart.stat().st_size})
        told.write_text(json.dumps(result) + "\n")


class FailingProcessor(CopyingProcessor):
    """A job that fails, whatever it is given."""

    def run(self, manifest_uri: str, *_: Any) -> None:
        """Fail."""
        raise RecordsFailedError(f"the job failed: {manifest_uri}")


class Impatient(Pipeline):
    """A pipeline whose plan doesn't wait for records."""

    __slots__ = ()

    def plan(self) -> Plan:
        """Plan at once."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Pipeline(**{**values, "subscription": replace(self.subscription, poll_timeout_ms=1)}).plan()


class Letter(NamedTuple):
    """A committed record of a topic that a subscription produces to, and where it says that it comes from."""

    offset: int
    topic: str
    partition: int
    origin: int


def letters(broker: Broker, admin: AdminClient, topic: str, names: str) -> list[Letter]:
    """All of a topic with one partition, as `read_committed` sees it once no transaction is under way there.

    `names` is how the headers begin that tell a record's origin: `dead-letter` or `delayed-retry`.
    """
    at = TopicPartition(topic, 0)
    (end,) = [answer.result(20).offset for answer in admin.list_offsets({at: OffsetSpec.latest()}).values()]
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"look-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return list(_read(consumer, at, end, names)) if end else []
    finally:
        consumer.close()


def _read(consumer: Consumer, at: TopicPartition, end: int, names: str) -> Iterator[Letter]:
    deadline = monotonic() + _SECONDS
    while (position := consumer.position([at])[0].offset) < end:
        assert monotonic() < deadline, f"{at.topic} can't be read beyond {position} of {end}"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            yield Letter(message.offset(), *told_origin(tuple(message.headers() or ()), names))


def told_origin(headers: Headers, names: str) -> tuple[str, int, int]:
    """Topic, partition and offset that a record's last headers tell as its origin."""
    topic, partition, offset = (last(headers, f"{names}-{name}") or b"" for name in ("topic", "partition", "offset"))
    return topic.decode(), int(partition), int(offset)


@dataclass
class StrategyScene(Scene):
    """A scene whose runs go through the steps as its commit strategy has them, with a job of its own."""

    job: Processor = field(default_factory=CopyingProcessor)

    @classmethod
    def of(cls, scene: Scene, job: Processor, **more: Any) -> Self:
        """The same scene with this job."""
        return cls(**{each.name: getattr(scene, each.name) for each in fields(Scene)}, job=job, **more)

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """A pipeline that nothing happens to."""
        with ExitStack() as stack:
            with _ONE_MIGRATION:
                begun = opened(self.subscription, self.settings, self.broker.bootstrap_servers, self.job)
                pipeline = stack.enter_context(begun)
            yield pipeline

    def next_run(self, pipeline: Pipeline) -> Batch | None:
        """One run that doesn't wait for records; that its job fails is fine."""
        run = run_batch(
            Impatient(**{each.name: getattr(pipeline, each.name) for each in fields(pipeline)}), lambda _: None
        )
        if run.error is not None and not isinstance(run.error, BatchFailedError):
            raise run.error
        return run.batch

    def run_once(self) -> Batch:
        """One run that has something to do."""
        with self.pipeline() as pipeline:
            batch = self.next_run(pipeline)
        assert batch is not None
        return batch

    def dead_letters(self) -> list[Letter]:
        """What is in the dead-letter topic, if it has one."""
        topic = self.subscription.dead_letter_queue.topic
        return letters(self.broker, self.feed.admin, topic, "dead-letter") if topic else []

    def _start(self, point: Point, strike: Signals) -> Child:
        subscription = replace(self.subscription, commit_fence=point.fence)
        folder = self.folder / f"child-{len(self.children)}"
        bootstrap = self.broker.bootstrap_servers
        self.children.append(Child(Task(subscription, self.settings, bootstrap, point, strike, folder, self.job)))
        return self.children[-1]


class Played(Protocol):
    """What happens at a point."""

    @property
    def point(self) -> Point:
        """Where a run is struck."""
        ...


S = TypeVar("S", bound=Played)


@contextmanager
def playing(request: pytest.FixtureRequest, play: Callable[[S], None]) -> Iterator[dict[S, Future[None]]]:
    """The chosen scenarios of a module, played a few at a time, those that wait for the broker first."""
    here = [i for i in request.session.items if isinstance(i, pytest.Function) and i.module is request.module]
    scenarios = [i.callspec.params["scenario"] for i in here if "scenario" in i.fixturenames]
    scenarios.sort(key=lambda scenario: scenario.point.within != UNTIL_THE_BROKER_ABORTS)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        yield {scenario: pool.submit(play, scenario) for scenario in scenarios}
        pool.shutdown(cancel_futures=True)
