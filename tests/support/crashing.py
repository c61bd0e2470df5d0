"""A child process that runs one batch and is struck at a chosen point: killed or stopped, with nothing unwound.

The children are forked by a server process that has imported everything and never made a Kafka client, so that
one costs no more than its run. Parents say where by a `Point`, one line each.
"""

import json
import logging
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Event, local
from time import monotonic
from typing import Any, Protocol, Self, cast

import psutil
from forking import Forked
from sqlalchemy import Engine, event

from chaos.kinds import CATALOG
from tidegate.config.settings import Settings
from tidegate.kafka.group import Group
from tidegate.kafka.transaction import TransactionalFence
from tidegate.lake import parquet as lake
from tidegate.lake import rename
from tidegate.lake.log_entries import LogEntries
from tidegate.landing import writer
from tidegate.ledger.offsets import SqlOffsets
from tidegate.model.errors import TidegateError
from tidegate.model.subscription import Subscription
from tidegate.parquet import files
from tidegate.ports import Connection, Processor, TableLog
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.runtime.run import UNPROCESSED, Run, run_batch
from tidegate.testing import copying
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate.testing.effects import Effect, Method, Watcher, watched

_SECONDS = 120
_PAUSE = Event()


Strike = Callable[[], None]
Open = Callable[[Subscription, Settings, str, Processor], AbstractContextManager[Pipeline]]


def _before(owner: Any, name: str, strike: Strike) -> None:
    """Strike before the function of this name is called."""
    real = getattr(owner, name)

    def struck(*args: Any, **kwargs: Any) -> Any:
        strike()
        return real(*args, **kwargs)

    setattr(owner, name, struck)


def _after(owner: Any, name: str, strike: Strike) -> None:
    """Strike when it has returned."""
    real = getattr(owner, name)

    def struck(*args: Any, **kwargs: Any) -> Any:
        answer = real(*args, **kwargs)
        strike()
        return answer

    setattr(owner, name, struck)


def _before_sql_commit(strike: Strike) -> None:
    event.listen(Engine, "commit", lambda _: strike())


def _before_sql_state(strike: Strike) -> None:
    def execute(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("UPDATE tidegate_states SET state="):
            strike()

    event.listen(Engine, "before_cursor_execute", execute)


def _half_a_copy(strike: Strike) -> None:
    def copy(source: Path, target: Path) -> None:
        content = source.read_bytes()
        target.write_bytes(content[: len(content) // 2])
        strike()
        target.write_bytes(content)

    copying.shutil.copyfile = copy  # type: ignore[attr-defined]


def _half_a_result(strike: Strike) -> None:
    real = Path.write_text

    def write(path: Path, text: str, **options: Any) -> int:
        real(path, text[: len(text) // 2], **options)
        strike()
        return real(path, text, **options)

    Path.write_text = write  # type: ignore[method-assign,assignment]


class _StruckLog:
    """A table's log whose commit is struck, before it or once the commit is there."""

    def __init__(self, log: TableLog, strike: Strike, *, first: bool) -> None:
        self._log = log
        self._strike = strike
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, *given: Any, **more: Any) -> None:
        """See `TableLog`."""
        if self._first:
            self._strike()
        self._log.append(*given, **more)
        if not self._first:
            self._strike()


def _at_log_commit(strike: Strike, *, first: bool) -> None:
    made = LogEntries.__init__

    def init(entries: LogEntries, log: TableLog, *given: Any) -> None:
        made(entries, cast("TableLog", _StruckLog(log, strike, first=first)), *given)

    LogEntries.__init__ = init  # type: ignore[method-assign]


class Inside(Enum):
    """An instant within an effect, by what has happened and what hasn't, and how to strike there in this process."""

    LEDGER_WRITTEN = "ledger written, not committed", _before_sql_commit
    TRANSACTION_BEGUN = "transaction begun, nothing sent", partial(_before, TransactionalFence, "_send")
    OFFSETS_SENT = "offsets sent, not committed", partial(_after, TransactionalFence, "_send")
    NO_LETTER_PRODUCED = "no letter produced, nothing stored", partial(_before, SqlOffsets, "send")
    LETTERS_PRODUCED = "letters produced, nothing stored", partial(_after, SqlOffsets, "send")
    POSITION_WRITTEN = "a position written, the next not", partial(_after, SqlOffsets, "_put")
    POSITIONS_WRITTEN = "positions written, the state not", _before_sql_state
    MEMBERS_LOOKED_FOR = "members looked for, fence not taken", partial(_before, Group, "producer")
    UNFENCED_COMMIT = "positions asked for a commit without a fence", partial(_before, Group, "commit")
    ROW_GROUP_WRITTEN = "row group written, file not closed", partial(_after, writer._OpenFile, "write")
    FILE_CLOSED = "file closed, the next not begun", partial(_after, writer.ParquetWriter, "_close_file")
    FILES_WRITTEN = "files written, not synced", partial(_before, writer, "make_durable")
    DOCUMENT_WRITTEN = "document written, not renamed", partial(_before, files, "make_durable")
    OUTPUT_HALF_WRITTEN = "output half written", _half_a_copy
    OUTPUT_WRITTEN = "output written, no result", partial(_before, copying, "_leave_result")
    RESULT_HALF_WRITTEN = "result half written", _half_a_result
    MANIFEST_PUT = "manifest put, not synced", partial(_before, lake, "sync_folder")
    MANIFEST_SYNCED = "manifest put, not renamed", partial(_before, lake, "rename_folder")
    RENAMED = "renamed, not synced", partial(_before, rename, "sync")
    LOG_NOT_COMMITTED = "note put, table's log not committed", partial(_at_log_commit, first=True)
    LOG_COMMITTED = "table's log committed, nobody told", partial(_at_log_commit, first=False)

    patch: Callable[[Strike], None]

    def __new__(cls, text: str, patch: Callable[[Strike], None]) -> Self:
        """Its value is the text alone, by which a child finds it again."""
        made = object.__new__(cls)
        made._value_ = text
        made.patch = patch
        return made

    def __str__(self) -> str:
        """What has happened, and what hasn't."""
        return str(self.value)


STEPS = ("plan", "land", "process", "commit", "publish")
"""What a run announces: the last step is `publish` where the strategy commits before it or later."""


@dataclass(frozen=True, slots=True)
class Point:
    """An instant of a run: before or after the `nth` such effect of a step, or `within` what `during` does.

    `before`, `after` and `within` make one from a port's method.
    """

    step: str
    before: Effect | None = None
    after: Effect | None = None
    within: Inside | None = None
    during: Effect | None = None
    nth: int = 1
    fence: str = "transactional"

    def __post_init__(self) -> None:
        """Refuse a step that no run has."""
        if self.step not in STEPS:
            raise ValueError(f"no run has a step {self.step}: it has {', '.join(STEPS)}")

    def __str__(self) -> str:
        """As a test's name: `commit: after lake.publish`."""
        where = f"before {self.before}" if self.before else f"after {self.after}" if self.after else str(self.within)
        during = f" during {self.during}" if self.during else ""
        number = f" #{self.nth}" if self.nth > 1 else ""
        fence = " (fence: none)" if self.fence == "none" else ""
        return f"{self.step}: {where}{during}{number}{fence}"


def before(step: str, method: Method, *, nth: int = 1, fence: str = "transactional") -> Point:
    """Before the nth call of a port's method in a step: `before("commit", Fence.commit)`."""
    return Point(step, before=Effect.of(method), nth=nth, fence=fence)


def after(step: str, method: Method, *, nth: int = 1, fence: str = "transactional") -> Point:
    """After it."""
    return Point(step, after=Effect.of(method), nth=nth, fence=fence)


def within(
    step: str, inside: Inside, *, during: Method | None = None, nth: int = 1, fence: str = "transactional"
) -> Point:
    """Within an effect: `within("plan", Inside.LEDGER_WRITTEN, during=Ledger.open)`."""
    return Point(step, within=inside, during=Effect.of(during) if during else None, nth=nth, fence=fence)


@dataclass(frozen=True, slots=True)
class Task:
    """What a child runs, where it is struck and by which signal, and the folder for its log and its last words.

    `open` gives it its pipeline, on a real broker if nobody says otherwise.
    """

    subscription: Subscription
    settings: Settings
    bootstrap_servers: str
    point: Point
    strike: signal.Signals
    folder: Path
    job: Processor = field(default_factory=CopyingProcessor)
    open: Open = field(default_factory=lambda: opened)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended that came to its end: the error that it raised, or `None`, and what it says."""

    error: str | None
    message: str


class UnderWay(local):
    """The effects that a thread is in, the innermost last: the one that gives signs of life has its own."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []


class Striker:
    """Strikes once, at a point of a run; implements `tidegate.testing.effects.Watcher`."""

    def __init__(self, point: Point, strike: Callable[[], None]) -> None:
        self._point = point
        self._strike = strike
        self._step = point.step
        self._under_way = UnderWay()
        self._seen = 0
        self.has_struck = False

    def enter(self, step: str) -> None:
        """What follows is of this step."""
        self._step = step

    def before(self, effect: Effect) -> None:
        """See `Watcher`."""
        self._under_way.effects.append(effect)
        if effect == self._point.before:
            self.strike()

    def after(self, effect: Effect) -> None:
        """See `Watcher`."""
        if effect == self._point.after:
            self.strike()
        while self._under_way.effects.pop() != effect:
            pass  # that one raised

    def strike_within(self) -> None:
        """Strike if it is this effect that the point means."""
        if self._point.during is None or self._under_way.effects[-1:] == [self._point.during]:
            self.strike()

    def strike(self) -> None:
        """Strike if it is the step, and often enough."""
        if self._step != self._point.step or self.has_struck:
            return
        self._seen += 1
        if self._seen == self._point.nth:
            self.has_struck = True
            self._strike()


def run(task: Task) -> None:
    """The child: one run of the pipeline, in files of two records, struck on its way; else its last words are left."""
    logging.basicConfig(filename=task.folder / "child.log", level=logging.INFO)
    writer._GROUP_ROWS, writer._FILE_ROWS = 2, 2
    striker = Striker(task.point, lambda: os.kill(os.getpid(), task.strike))
    if task.point.within is not None:
        task.point.within.patch(striker.strike_within)
    try:
        with task.open(task.subscription, task.settings, task.bootstrap_servers, task.job) as pipeline:
            done = run_watched(pipeline, striker)
        ended = Ended(None, done.why)
    except TidegateError as error:
        ended = Ended(type(error).__name__, str(error))
    except BaseException:  # noqa: BLE001 (the parent tells of it)
        ended = Ended("?", traceback.format_exc())
    left = task.folder / "ended.json"
    left.with_suffix(".part").write_text(json.dumps([ended.error, ended.message]), encoding="utf-8")
    left.with_suffix(".part").rename(left)


class StepWatcher(Watcher, Protocol):
    """A watcher that is told which step the effects belong to."""

    def enter(self, step: str) -> None:
        """What follows is of this step."""
        ...


def run_watched(pipeline: Pipeline, watcher: StepWatcher) -> Run:
    """One run in the order of its commit strategy, each step and effect of which is told; raises what it ends with."""
    done = run_batch(watched(pipeline, watcher), lambda said: watcher.enter("commit" if said == UNPROCESSED else said))
    if done.error is not None:
        raise done.error
    return done


@contextmanager
def opened(
    subscription: Subscription, settings: Settings, bootstrap_servers: str, job: Processor
) -> Iterator[Pipeline]:
    """The pipeline of a subscription on this broker, with this job in place of Spark."""
    kafka = Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": bootstrap_servers})
    connections = MemoryConnections(kafka, catalog_connection(settings))
    with open_pipeline(subscription, settings, connections, job) as pipeline:
        yield pipeline


def catalog_uri(settings: Settings) -> str:
    """The database of the catalog that Iceberg tables are in."""
    return f"sqlite:///{settings.home}/data/catalog.db"


def catalog_connection(settings: Settings) -> Connection:
    """The connection of that catalog."""
    extra = {"type": "sql", "uri": catalog_uri(settings), "warehouse": f"file://{settings.home}"}
    return Connection(CATALOG, "iceberg", None, None, None, None, extra)


class Child:
    """A run in a process of its own, from its parent's side."""

    def __init__(self, task: Task) -> None:
        task.folder.mkdir(parents=True)
        self._folder = task.folder
        self._point = task.point
        self._process = Forked(run, task)

    def was_killed(self) -> None:
        """Wait for its end, which the point must have brought about."""
        assert self._process.is_over(_SECONDS), f"neither killed nor done: {self._said()}"
        assert self._process.exit_code == -signal.SIGKILL, f"not killed at {self._point}: {self._said()}"

    def is_asleep(self) -> None:
        """Wait until it stopped itself at the point."""
        deadline = monotonic() + _SECONDS
        while not self._process.is_over(0):
            if psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED:
                return
            assert monotonic() < deadline, f"never came to {self._point}: {self._said()}"
            _PAUSE.wait(0.02)
        raise AssertionError(f"ended before {self._point}: {self._said()}")

    def wake(self) -> Ended:
        """Let it go on to its end, and hear how that was."""
        os.kill(self._process.pid, signal.SIGCONT)
        assert self._process.is_over(_SECONDS), f"never came to its end: {self._said()}"
        assert self._process.exit_code == 0, self._said()
        return Ended(*json.loads((self._folder / "ended.json").read_text(encoding="utf-8")))

    def end(self) -> None:
        """Make sure that it is gone."""
        self._process.end(_SECONDS)

    def _said(self) -> str:
        names = ("ended.json", "child.log")
        said = [(self._folder / name).read_text(encoding="utf-8") for name in names if (self._folder / name).exists()]
        return "\n".join([f"exit code {self._process.exit_code}", *said])
