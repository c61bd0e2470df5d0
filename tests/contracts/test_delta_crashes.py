"""A committer to a Delta table that dies before, within or after its commit leaves all of it or nothing."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import monotonic

import delta_committer
import pytest
from delta_committer import INCARNATION, NUMBER
from faulty_store import Fate, faulty
from moto_s3 import MotoS3, moto_apart
from table_benches import DeltaBench, delta_on_disk, delta_on_s3, rows_of

from tidegate.ports.table_log import DataFile, Record

_SECONDS = 60
_PAUSE = Event()
COMMIT = f"_delta_log/{NUMBER:020}.json"
"""Where the commit of the batch lies: the table is created, and has one batch."""


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoS3]:
    with moto_apart(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[DeltaBench]:
    with delta_on_disk(tmp_path) as bench:
        begin(bench)
        yield bench


@pytest.fixture
def on_s3(moto: MotoS3) -> Iterator[DeltaBench]:
    with delta_on_s3(moto) as bench:
        begin(bench)
        yield bench


def stage(bench: DeltaBench, number: int) -> DataFile:
    (file,) = bench.stage(f"b{number}", rows_of(f"b{number}", 3))
    return file


def publish(bench: DeltaBench, number: int, file: DataFile) -> None:
    snapshot = bench.log.load(bench.table, INCARNATION, number)
    assert snapshot is not None
    bench.log.append(bench.table, INCARNATION, snapshot, Record(number, number), [file])


def begin(bench: DeltaBench) -> None:
    file = stage(bench, 1)
    bench.log.create(bench.table, [file], ())
    publish(bench, 1, file)


def committer(bench: DeltaBench, file: DataFile, point: str, **options: str) -> "subprocess.Popen[str]":
    given = json.dumps({**bench.options, **options})
    program = [sys.executable, delta_committer.__file__, bench.table, given, file.uri, str(file.bytes), point]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def is_all_or_nothing(bench: DeltaBench, *, committed: bool) -> None:
    """What its readers and the next runs find; whoever publishes next isn't in its way."""
    snapshot = bench.log.load(bench.table, INCARNATION, NUMBER)
    assert snapshot is not None
    assert snapshot.record == (Record(NUMBER, 7) if committed else Record(1, 1))
    assert bench.batches() == ["b1"] * 3 + ["b2"] * 3 * committed
    publish(bench, NUMBER + 1, stage(bench, NUMBER + 1))
    assert bench.batches() == ["b1"] * 3 + ["b2"] * 3 * committed + ["b3"] * 3
    bench.maintain()
    assert bench.batches() == ["b1"] * 3 + ["b2"] * 3 * committed + ["b3"] * 3


@pytest.mark.parametrize(
    ("point", "death", "committed"),
    [("before", signal.SIGKILL, False), ("within", signal.SIGXFSZ, False), ("after", signal.SIGKILL, True)],
)
def test_on_disk(on_disk: DeltaBench, point: str, death: signal.Signals, committed: bool) -> None:
    child = committer(on_disk, stage(on_disk, NUMBER), point)
    said, _ = child.communicate(timeout=_SECONDS)
    assert child.returncode == -death, said
    log = Path(on_disk.table.removeprefix("delta+file://"), "_delta_log")
    halves = [each for each in log.iterdir() if "#" in each.name]
    assert bool(halves) == (point == "within"), sorted(each.name for each in log.iterdir())
    is_all_or_nothing(on_disk, committed=committed)


@pytest.mark.object_store
@pytest.mark.parametrize("arrives", [False, True], ids=["asked", "stored"])
def test_between_the_request_and_the_answer_of_an_object_store(on_s3: DeltaBench, moto: MotoS3, arrives: bool) -> None:
    children: list[subprocess.Popen[str]] = []
    asked = Event()

    def fate(method: str, path: str) -> Fate:
        if method != "PUT" or not path.endswith(COMMIT):
            return "pass"
        children[0].send_signal(signal.SIGSTOP)  # it hears nothing of what follows
        asked.set()
        return "cut after" if arrives else "cut before"

    with faulty(moto.endpoint) as way:
        way.fate = fate
        children.append(committer(on_s3, stage(on_s3, NUMBER), "never", aws_endpoint=way.endpoint))
        assert asked.wait(_SECONDS)
        deadline = monotonic() + _SECONDS
        while on_s3.delta.version() < NUMBER and arrives:
            assert monotonic() < deadline
            _PAUSE.wait(0.02)
        children[0].kill()
        said, _ = children[0].communicate(timeout=_SECONDS)
        assert children[0].returncode == -signal.SIGKILL, said
    is_all_or_nothing(on_s3, committed=arrives)
