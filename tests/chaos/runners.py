"""Runners: each runs one batch after the other in child processes, to which their fates happen.

The children are forked by a server process that has imported everything and never made a Kafka client.
"""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from unittest.mock import patch

import psutil

from chaos.draws import CALM, Blow, Fate
from chaos.flipping import flip_one, landed_files, staged_files
from chaos.tally import ABORTED, Tally
from chaos.tasks import DUMP_SIGNAL, PYTHON_PATH, Part, Place, Said, Task, run
from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.output_uri import OutputFormat

HUNG_SECONDS = 150
_FORK_SERVER = "chaos.fork_server"
_LOOK_SECONDS = 0.02
_SHORTEST_SECONDS = 0.5  # from one run to the next: while a server is away, they fail at once
_KNOWN_ABORT = b"rd_kafka_enq_once_del_source_return"
"""An assertion of librdkafka's that fails where a connection breaks at the wrong instant (its issue 4605)."""
_LAST_BYTES = 64 << 10
_IN_PLACE_OF_A_DRIVER: dict[Blow, Blow] = {
    "kill driver": "kill task",
    "stop driver": "stop task",
    "driver lives on": "kill task",
    "records fail": "pause task",
}
_NEEDED: dict[OutputFormat, tuple[str, ...]] = {
    "parquet": (),
    "delta": ("tidegate.lake.delta.log",),
    "iceberg": ("tidegate.lake.iceberg.log", "tidegate.lake.iceberg.catalogs", "pyiceberg.catalog.sql"),
}
_ONE_AT_A_TIME = threading.Lock()  # multiprocessing looks after all children whenever one is started or asked for


def start_fork_server(formats: Collection[OutputFormat] = ()) -> None:
    """Start what forks the tasks. To be called in the main thread: it ends with the thread that started it.

    What outputs of these formats need is imported there, once for all tasks.
    """
    needed = [module for each in sorted(formats) for module in _NEEDED[each]]
    multiprocessing.set_forkserver_preload([_FORK_SERVER, run.__module__, "alembic.command", "psycopg2", *needed])
    with patch.dict(os.environ, {"PYTHONPATH": PYTHON_PATH}):  # its tasks inherit it, and so do their drivers
        forkserver.ensure_running()


class Child:
    """A task's process, from its parent's side."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("forkserver")
        self.part = task.part
        self._log = task.log
        self._pipe, theirs = context.Pipe(duplex=False)
        with _ONE_AT_A_TIME:
            self._process = context.Process(target=run, args=(task, theirs), daemon=True)
            self._process.start()
            self.sentinel = self._process.sentinel
            self.pid = self._process.pid or 0
        theirs.close()
        self._signals: set[int] = set()

    def is_over(self, seconds: float = 0) -> bool:
        """Whether it has ended, now or within that time."""
        return bool(wait([self.sentinel], seconds))

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, which it may end by then if that is to end it."""
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._signals.add(number)
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def drivers(self) -> list[psutil.Process]:
        """The drivers that it has started and that run."""
        try:
            return [each for each in psutil.Process(self.pid).children() if each.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            return []

    def said(self) -> Said | None:
        """Its last words once it is over; None if `send` killed it before it had any."""
        with _ONE_AT_A_TIME:
            self._process.join()
            status = self._process.exitcode
            self._process.close()
        try:
            said: Said | None = self._pipe.recv() if self._pipe.poll() else None
        except EOFError:
            said = None
        self._pipe.close()
        if status == -signal.SIGABRT and _KNOWN_ABORT in _last_words(self._log):
            return Said(error=ABORTED, message=f"{self.part} (process {self.pid})")
        if status != 0 and -(status or 0) not in self._signals:
            how = f"signal {signal.Signals(-status).name}" if status and status < 0 else f"status {status}"
            return Said(error="Died", message=f"{self.part} (process {self.pid}) ended with {how}", is_ours=False)
        return said


class Runner:
    """One runner of a subscription, as a scheduler would be: one batch after the other, step by step.

    Or, with `is_person`, whoever commits its batches or answers for them, time and again. `number` names its log. Every
    process that it starts is over when its method returns.
    """

    def __init__(self, number: int, place: Place, tally: Tally, *, is_person: bool = False) -> None:
        self.number = number
        self.log = place.folder / "logs" / f"runner-{number}.log"
        self.place = place
        self.is_person = is_person
        self._tally = tally
        self._children: set[Child] = set()
        self._grounds = set(place.kind.grounds) | ({"SparkUnavailableError"} if place.spark else set())

    def go_on(self, fates: Iterator[Fate], is_over: Callable[[], bool]) -> None:
        """Run batch after batch until it is over."""
        while not is_over():
            began = time.monotonic()
            self.run(next(fates))
            time.sleep(max(0.0, began + _SHORTEST_SECONDS - time.monotonic()))

    def end(self) -> None:
        """Kill what it has started; a run that goes on in another thread may start more."""
        for child in tuple(self._children):
            child.send(signal.SIGKILL)
            child.send(signal.SIGCONT)

    def run(self, fate: Fate) -> Said | None:
        """One run and its fate; its last words, if it is one process and has some."""
        if self.is_person:
            return self._look_after(fate)
        if self.place.kind.at_once:
            fate = _without_a_driver(fate)
        self._tally.began()
        if not fate.apart:
            return self._carry_out(self._task("run", fate), fate)
        self._run_apart(fate)
        return None

    def _run_apart(self, fate: Fate) -> None:
        planned = self._step("plan", fate)
        if planned is None or planned.batch_id is None:
            return
        batch_id = planned.batch_id
        goes_on = self._land(batch_id, planned.members, fate)
        if self.place.kind.policy.commit_at is CommitPoint.LANDED and goes_on:
            received = self._step("receive", fate, batch_id)
            goes_on = received is not None and received.error is None
        if goes_on:
            self._flip("flip landed", batch_id, fate)
            self._step("process", fate, batch_id)
            self._flip("flip staged", batch_id, fate)
        self._step("settle", fate, batch_id)  # whatever happened, as in the DAG

    def _flip(self, where: Blow, batch_id: str, fate: Fate) -> None:
        """Change a byte of the batch, where nobody works on it and it can be had again.

        A batch whose landing is damaged is planned anew, maybe with other ends: what was sent of it behind them comes
        again with the next one.
        """
        kind = self.place.kind
        is_sent_again = kind.at_once and where == "flip landed"
        if fate.blow != where or kind.runners > 1 or kind.policy.commit_at is CommitPoint.LANDED or is_sent_again:
            return
        if flip_one(
            landed_files(self.place, batch_id) if where == "flip landed" else staged_files(self.place, batch_id)
        ):
            self._grounds.add("CorruptFileError")
            self._tally.killed("byte")

    def _look_after(self, fate: Fate) -> Said | None:
        part: Part = "commit by hand" if self.place.kind.person == "commits" else "answer"
        answer = fate.answer if self.place.kind.person == "answers" else Resolution.REDELIVER
        return self._carry_out(replace(self._task(part, fate), answer=answer), fate)

    def _task(self, part: Part, fate: Fate, batch_id: str = "", member: int = 0) -> Task:
        late = fate.late if fate.blow == "driver lives on" else 0.0
        return Task(
            self.place,
            self.log,
            part,
            batch_id,
            member,
            work=fate.work,
            late=late,
            fails=fate.blow == "records fail",
            skew=0.0 if self.place.kind.retry_topics else fate.skew,  # a retry is due by the clock of whoever sent it
            room=fate.room,
            spark=fate.spark,
            answer=fate.answer,
        )

    def _step(self, step: Part, fate: Fate, batch_id: str = "") -> Said | None:
        return self._carry_out(self._task(step, fate, batch_id), _at(step, fate))

    def _land(self, batch_id: str, members: Sequence[int], fate: Fate) -> bool:
        """All members side by side, the blow to the first; whether all came to a good end."""
        children = [self._start(self._task("land", fate, batch_id, member)) for member in members]
        if children:
            self._let_happen(children[0], _at("land", fate))
        said = [self._heard(child) for child in children]
        return all(each is not None and each.error is None for each in said)

    def _carry_out(self, task: Task, fate: Fate) -> Said | None:
        child = self._start(task)
        self._let_happen(child, fate)
        said = self._heard(child)
        if task.room is not None and said is not None and said.error is not None:
            self._tally.killed("disk")
        if said is not None and said.error == "RecordsFailedError":
            self._tally.killed("records")
        if task.late and said is not None and said.error == "BatchFailedError":
            self._tally.killed("driver's client")
        return said

    def _start(self, task: Task) -> Child:
        child = Child(task)
        self._children.add(child)
        return child

    def _heard(self, child: Child) -> Said | None:
        """What the child said in the end, which is noted; one that hangs says where, in its log, and is killed."""
        if not child.is_over(HUNG_SECONDS):
            child.send(DUMP_SIGNAL)
            child.is_over(1)
            self._tally.failed("Hung", f"{child.part} (process {child.pid}) took {HUNG_SECONDS} s", is_ours=False)
            child.send(signal.SIGKILL)
        self._children.discard(child)
        said = child.said()
        if said is not None and said.error is not None:
            self._tally.failed(said.error, said.message, is_ours=said.is_ours, grounds=self._grounds)
        if said is not None and said.committed and said.batch_id is not None:
            self._tally.committed(said.batch_id)
        return said

    def _let_happen(self, child: Child, fate: Fate) -> None:
        match fate.blow:
            case "kill task" if not child.is_over(fate.after):
                child.send(signal.SIGKILL)
                self._tally.killed("task")
            case "stop task" if not child.is_over(fate.after):
                child.send(signal.SIGTERM)
                self._tally.killed("task, by SIGTERM")
            case "pause task" if not child.is_over(fate.after):
                child.send(signal.SIGSTOP)
                time.sleep(fate.pause)
                child.send(signal.SIGCONT)
                self._tally.killed("task, paused")
            case "kill driver":
                self._end_driver(child, fate.after, signal.SIGKILL, "driver")
            case "stop driver":
                self._end_driver(child, fate.after, signal.SIGTERM, "driver, by SIGTERM")
            case _:
                pass

    def _end_driver(self, child: Child, after: float, number: signal.Signals, named: str) -> None:
        """End the first driver that it starts, or nothing if that is quicker."""
        until = time.monotonic() + HUNG_SECONDS
        while not (drivers := child.drivers()):
            if child.is_over(_LOOK_SECONDS) or time.monotonic() > until:
                return
        if child.is_over(after / 4):
            return
        for driver in drivers:
            with suppress(psutil.NoSuchProcess):
                driver.send_signal(number)
                self._tally.killed(named)


@contextmanager
def beside(
    runners: Sequence[Runner], works: Sequence[Callable[[], None]], over: threading.Event, tally: Tally
) -> Iterator[list[threading.Thread]]:
    """Each work in a thread of its own until it comes to its end; where the context fails, it is over for all.

    What goes wrong in a work itself is noted as what must never happen.
    """
    jobs = [threading.Thread(target=_guarded, args=(work, tally), daemon=True) for work in works]
    for job in jobs:
        job.start()
    try:
        yield jobs
    except BaseException:
        over.set()
        while any(job.is_alive() for job in jobs):
            end_all(runners)
        raise


def _last_words(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(-min(_LAST_BYTES, log.stat().st_size), os.SEEK_END)
        return file.read()


def end_all(runners: Sequence[Runner]) -> None:
    """Kill what all of them have started."""
    for runner in runners:
        runner.end()
    time.sleep(_LOOK_SECONDS)


def _guarded(work: Callable[[], None], tally: Tally) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 (this is a thread's end)
        tally.failed("Runner", traceback.format_exc(), is_ours=False)


def _without_a_driver(fate: Fate) -> Fate:
    """Requests have no driver: the task that sends them is struck in its place."""
    blow = _IN_PLACE_OF_A_DRIVER.get(fate.blow)
    return replace(fate, blow=blow, step="process") if blow else fate


def _at(step: Part, fate: Fate) -> Fate:
    """What of a fate happens at this step; what befalls commit befalls all that commits or publishes."""
    struck = "process" if fate.blow in ("kill driver", "stop driver", "records fail") else fate.step
    here = "commit" if step in ("receive", "settle") else step
    return fate if struck == here or fate.blow == "driver lives on" else replace(CALM, apart=True)


def end_drivers(folder: Path) -> None:
    """Kill the copying drivers that still work below this folder; they have outlived their tasks."""
    for process in _drivers(folder):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def wait_for_drivers(folder: Path, seconds: float) -> bool:
    """Whether all copying drivers that work below this folder have ended by themselves within that time."""
    until = time.monotonic() + seconds
    while _drivers(folder):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _drivers(folder: Path) -> list[psutil.Process]:
    """Processes that were handed a manifest below the folder."""
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if (each.info["cmdline"] or [""])[-1].startswith(f"file://{folder}/")]
