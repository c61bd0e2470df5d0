"""A task: the process that runs one pipeline run, or one step of it; and what it says when it wasn't killed."""

import faulthandler
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from types import FrameType
from typing import Literal

from chaos.access import client
from chaos.kinds import CATALOG, DISK, PLAIN, RECEIVED, Access, Kind
from chaos.outputs import Output, Where, output_at
from tidegate.config import reading
from tidegate.config.settings import Settings
from tidegate.model.batch import SETTLED, Batch, Resolution, State
from tidegate.model.errors import InterruptedDeliveryError, TidegateError, WrongDefinitionError
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock, Connection, Processor
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.runtime.run import run_batch
from tidegate.spark.connect import ConnectProcessor
from tidegate.spark.scripts import processing_job
from tidegate.spark.submit import SubmitProcessor
from tidegate.testing.connections import MemoryConnections
from tidegate_local import leash
from tidegate_local.loopback import HOST

Part = Literal["run", "plan", "land", "process", "receive", "settle", "commit by hand", "answer"]
DUMP_SIGNAL = signal.SIGUSR1
PROJECT = Path(__file__).resolve().parents[2]
PYTHON_PATH = os.pathsep.join(str(PROJECT / each) for each in ("include", "tests", "tests/support"))
"""Where processes of ours find the engine, chaos and its servers, in whatever folder they were started."""
_DRIVER = "chaos.driver"


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is: the folder that all is written below, the broker, the ledger, and the keeper's process id.

    `kind` is the subscription that is meant; `spark` is the URL of a Spark Connect server, None where there is none;
    `entrances` are the broker's addresses by the ways to it that aren't direct.
    """

    folder: Path
    bootstrap: str
    ledger: str = field(repr=False)
    keeper: int = 0
    spark: str | None = field(default=None, repr=False)
    entrances: Mapping[Access, str] = field(default_factory=dict)
    kind: Kind = PLAIN

    @property
    def definition(self) -> Path:
        """The subscription's definition, by whatever name it has now."""
        if not self.kind.is_renamed:
            return self.folder / f"{self.kind.name}.yaml"
        while len(found := list(self.folder.glob(f"{self.kind.name}-*.yaml"))) != 1:
            pass  # it is being renamed while somebody looks
        return found[0]

    @property
    def names(self) -> list[str]:
        """All names that the subscription has ever had; the last is its name now."""
        last = self.definition.stem.rpartition("-")[2]
        return [self.kind.named(times) for times in range(int(last) + 1)] if self.kind.is_renamed else [self.kind.name]

    @property
    def client(self) -> dict[str, str]:
        """How the subscription comes to the broker."""
        bootstrap = self.entrances.get(self.kind.access, self.bootstrap)
        return {"bootstrap.servers": bootstrap, **client(self.kind.access, self.folder)}

    @property
    def received(self) -> Path:
        """What the receiver of webhooks writes, where a subscription has one."""
        return self.folder / RECEIVED

    @property
    def output(self) -> Output:
        """What the subscription publishes, as others see it."""
        return output_at(Where(self.folder, self.kind.output, self.ledger), self.kind.format)

    @property
    def catalog(self) -> Connection:
        """The catalog of Iceberg tables: in the ledger's database, and so it is killed with that."""
        extra = {"type": "sql", "uri": self.ledger, "warehouse": f"file://{self.folder}"}
        return Connection(CATALOG, "iceberg", None, None, None, None, extra)

    @property
    def settings(self) -> Settings:
        """The settings of the runs."""
        landing = {"TIDEGATE_LANDING": str(self.folder / DISK / "landing")} if self.kind.has_own_disk else {}
        return Settings.from_environment(
            {
                "AIRFLOW_HOME": str(self.folder),  # whose configuration says nothing
                "TIDEGATE_HOME": str(self.folder),
                "TIDEGATE_SUBSCRIPTIONS": ".",
                "TIDEGATE_LEDGER": self.ledger,
                "TIDEGATE_HTTP_ALLOWED": HOST,
                **landing,
            }
        )


@dataclass(frozen=True, slots=True)
class Task:
    """What a process runs.

    `batch_id` and `member` are for a step that needs them, `work`, `late` and `fails` for its driver, `answer` for a
    person; its clock is `skew` seconds ahead, and neither it nor its driver can write a file of more bytes than `room`.
    """

    place: Place
    log: Path
    part: Part = "run"
    batch_id: str = ""
    member: int = 0
    work: float = 0.0
    late: float = 0.0
    fails: bool = False
    skew: float = 0.0
    room: int | None = None
    spark: bool = False
    answer: Resolution = Resolution.REDELIVER


@dataclass(frozen=True, slots=True)
class Said:
    """The last words of a task: its batch and members, whether that is committed, or the class of its error."""

    batch_id: str | None = None
    members: tuple[int, ...] = ()
    committed: bool = False
    error: str | None = None
    message: str = ""
    is_ours: bool = True


def run(task: Task, pipe: Pipe) -> None:
    """Carry out the task in this process and send what is to be said of it; SIGTERM ends it as the command line's."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        _become_a_task(task)
        said = _ended(task)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        said = Said(error=InterruptedDeliveryError.__name__, message="SIGTERM")
    pipe.send(said)
    pipe.close()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _ended(task: Task) -> Said:
    try:
        with opened(task.place, _processor(task), Skewed(task.skew)) as pipeline:
            return _carry_out(task, pipeline)
    except KeyboardInterrupt:
        raise
    except TidegateError as error:
        logging.getLogger(__name__).warning("%s: %s", type(error).__name__, error)
        return Said(error=type(error).__name__, message=str(error))
    except BaseException as error:  # noqa: BLE001 (whoever started this process tells of it)
        sys.stderr.write(traceback.format_exc())
        return Said(error=type(error).__name__, message=traceback.format_exc(), is_ours=False)


class Skewed(SystemClock):
    """The clock of a machine that is some seconds ahead of others."""

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        """See `tidegate.ports.Clock`."""
        return super().now() + self._ahead


@contextmanager
def opened(place: Place, processor: Processor | None = None, clock: Clock | None = None) -> Iterator[Pipeline]:
    """The pipeline of the subscription at this place."""
    kafka = Connection("kafka_default", "kafka", None, None, None, None, place.client)
    subscription = _defined(place)
    connections = MemoryConnections(kafka, place.catalog)
    with open_pipeline(subscription, place.settings, connections, processor, clock=clock) as pipeline:
        yield pipeline


def _defined(place: Place) -> Subscription:
    """The subscription, also if it is renamed just now."""
    while True:
        path = place.definition
        try:
            return reading.load(path)
        except WrongDefinitionError:
            if path.exists():
                raise


def _carry_out(task: Task, pipeline: Pipeline) -> Said:
    match task.part:
        case "run":
            return _run(pipeline)
        case "plan":
            return _plan(pipeline)
        case "land":
            return Said(pipeline.land(task.batch_id, task.member).id)
        case "process":
            pipeline.receive(task.batch_id)
            pipeline.process(task.batch_id)
            return Said(task.batch_id)
        case "receive" | "settle":
            step = pipeline.receive if task.part == "receive" else pipeline.settle
            return _said(step(task.batch_id), task.batch_id)
        case _:
            return _look_after(task, pipeline)


def _run(pipeline: Pipeline) -> Said:
    """What `tidegate run` does."""
    run = run_batch(pipeline, lambda _: None)
    if run.error is not None:
        raise run.error
    return _said(run.batch, run.batch.id) if run.batch else Said()


def _plan(pipeline: Pipeline) -> Said:
    plan = pipeline.plan()
    return Said(plan.batch.id if plan.batch else None, plan.members)


def _look_after(task: Task, pipeline: Pipeline) -> Said:
    """What a person does, by `tidegate commit` or `tidegate clear`, once there is something to do."""
    batch = pipeline.ledger.look(pipeline.subscription.name).open
    if batch is None:
        return Said()
    if task.part == "commit by hand" and batch.awaits_commit:
        return _said(pipeline.commit_open(), batch.id)
    if task.part == "answer" and batch.state is State.HELD:
        pipeline.clear("somebody", "chaos", task.answer)
    return Said(batch.id)


def _said(batch: Batch | None, batch_id: str) -> Said:
    return Said(batch_id, committed=batch is not None and (batch.state is State.PUBLISHED or batch.outcome in SETTLED))


def _processor(task: Task) -> Processor | None:
    """What copies, or runs the real job; None where the subscription has its own, which sends requests."""
    if task.place.kind.at_once:
        return None
    if task.spark and task.place.spark:
        return ConnectProcessor(task.place.spark, processing_job())
    times = ("--work", f"{task.work:.3f}", "--late", f"{task.late:.3f}")
    kind = task.place.kind
    needs_arrow = kind.rejects or kind.has_table
    bare = () if needs_arrow else ("-S",)  # who copies only starts quicker without
    rejecting = ("--reject", str(kind.rejects), "--again", str(kind.dies)) if kind.rejects else ()
    counting = ("--count",) if kind.counts else ()
    laid_out = ("--table",) if kind.has_table else ()
    failing = ("--fail",) if task.fails else ()
    driver = (sys.executable, *bare, "-m", _DRIVER, "--keeper", str(task.place.keeper))
    return SubmitProcessor((*driver, *times, *rejecting, *laid_out, *counting, *failing))


def _become_a_task(task: Task) -> None:
    """Die with the parent, leave Ctrl-C to it, and write everything, crashes of libraries too, into the log."""
    leash.put_on(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # what it logs goes into a file that is larger: only its last words are kept
    log = os.open(task.log if task.room is None else os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    faulthandler.register(DUMP_SIGNAL, all_threads=True)
    what = f"{os.getpid()} {task.part} {task.member if task.part == 'land' else ''}".strip()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s [{what}] %(levelname)s %(name)s: %(message)s"
    )
    if task.room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task.room, resource.RLIM_INFINITY))
