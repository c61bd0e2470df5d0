"""A task: the process that runs one pipeline run, or one step of it; and what it says when it wasn't killed."""

import ctypes
import faulthandler
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Literal

from tidegate.batch import Batch, State
from tidegate.definition import reading
from tidegate.errors import TidegateError
from tidegate.pipeline import Pipeline, open_pipeline
from tidegate.ports import Connection, Processor
from tidegate.settings import PROJECT, Settings
from tidegate.spark.connect import ConnectProcessor
from tidegate.spark.job import JOB
from tidegate.spark.submit import SubmitProcessor
from tidegate.testing.connections import MemoryConnections
from tidegate_local.chaos.kinds import PLAIN, Kind
from tidegate_local.leash import PR_SET_PDEATHSIG

Part = Literal["run", "plan", "land", "process", "commit", "publish"]
DUMP_SIGNAL = signal.SIGUSR1
_DRIVER = "tidegate_local.chaos.driver"


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is: the folder that all is written below, the broker, the ledger, and the keeper's process id.

    `kind` is the subscription that is meant; `spark` is the URL of a Spark Connect server, None where there is none.
    """

    folder: Path
    bootstrap: str
    ledger: str = field(repr=False)
    keeper: int = 0
    spark: str | None = None
    kind: Kind = PLAIN

    @property
    def definition(self) -> Path:
        """The subscription's definition."""
        return self.folder / f"{self.kind.name}.yaml"

    @property
    def settings(self) -> Settings:
        """The settings of the runs."""
        return Settings.from_environment({"TIDEGATE_HOME": str(self.folder), "TIDEGATE_LEDGER": self.ledger})


@dataclass(frozen=True, slots=True)
class Task:
    """What a process runs; `batch_id` and `member` for a step that needs them, `work` and `late` for its driver."""

    place: Place
    log: Path
    part: Part = "run"
    batch_id: str = ""
    member: int = 0
    work: float = 0.0
    late: float = 0.0
    spark: bool = False


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
    """Carry out the task in this process and send what is to be said of it."""
    _become_a_task(task)
    try:
        with opened(task.place, _processor(task)) as pipeline:
            said = _carry_out(task, pipeline)
    except TidegateError as error:
        logging.getLogger(__name__).warning("%s: %s", type(error).__name__, error)
        said = Said(error=type(error).__name__, message=str(error))
    except BaseException as error:  # noqa: BLE001 (whoever started this process tells of it)
        said = Said(error=type(error).__name__, message=traceback.format_exc(), is_ours=False)
        sys.stderr.write(said.message)
    pipe.send(said)
    pipe.close()


@contextmanager
def opened(place: Place, processor: Processor | None = None) -> Iterator[Pipeline]:
    """The pipeline of the subscription at this place, with the strategies of its kind."""
    kafka = Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": place.bootstrap})
    described = reading.load(place.definition)
    subscription = replace(described, commit_strategy=place.kind.commit, failure_strategy=place.kind.failure)
    with open_pipeline(subscription, place.settings, MemoryConnections(kafka), processor) as pipeline:
        yield pipeline


def _carry_out(task: Task, pipeline: Pipeline) -> Said:
    match task.part:
        case "run":
            planned = _plan(pipeline)
            if planned.batch_id is None:
                return planned
            for member in planned.members:
                pipeline.land(planned.batch_id, member)
            return _settle(pipeline, planned.batch_id)
        case "plan":
            return _plan(pipeline)
        case "land":
            pipeline.land(task.batch_id, task.member)
        case "process":
            pipeline.process(task.batch_id)
        case "commit":
            return _said(pipeline.commit(task.batch_id), task.batch_id)
        case "publish":
            return _said(pipeline.publish(task.batch_id), task.batch_id)
    return Said(task.batch_id)


def _plan(pipeline: Pipeline) -> Said:
    plan = pipeline.plan()
    return Said(plan.batch.id if plan.batch else None, plan.members)


def _settle(pipeline: Pipeline, batch_id: str) -> Said:
    """What comes after landing, in the order of the commit strategy."""
    pipeline.receive(batch_id)
    pipeline.process(batch_id)
    return _said(pipeline.settle(batch_id), batch_id)


def _said(batch: Batch | None, batch_id: str) -> Said:
    return Said(batch_id, committed=batch is not None and batch.state in (State.COMMITTED, State.PUBLISHED))


def _processor(task: Task) -> Processor:
    if task.spark and task.place.spark:
        return ConnectProcessor(task.place.spark, JOB)
    times = ("--work", f"{task.work:.3f}", "--late", f"{task.late:.3f}")
    rejects = task.place.kind.rejects
    bare = () if rejects else ("-S",)  # who rejects needs Arrow, who copies only starts quicker without
    rejecting = ("--reject", str(rejects)) if rejects else ()
    driver = (sys.executable, *bare, "-m", _DRIVER, "--keeper", str(task.place.keeper))
    return SubmitProcessor((*driver, *times, *rejecting))


def _become_a_task(task: Task) -> None:
    """Die with the parent, leave Ctrl-C to it, and write everything, crashes of libraries too, into the log."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = os.open(task.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    faulthandler.register(DUMP_SIGNAL, all_threads=True)
    what = f"{os.getpid()} {task.part} {task.member if task.part == 'land' else ''}".strip()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s [{what}] %(levelname)s %(name)s: %(message)s"
    )
    os.environ["PYTHONPATH"] = str(PROJECT / "include")
