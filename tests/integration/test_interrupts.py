"""A delivery that is interrupted, or for which there is no Spark, costs nothing; one that died is known to be dead."""

import json
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import psutil
import pytest
from desk import TIDEGATE, Desk
from sqlalchemy import Connection

from tidegate.config.settings import Settings
from tidegate.ledger.database import database_time
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Cause, Outcome, State, Tries
from tidegate.steps.deliver import SILENT

pytestmark = [pytest.mark.broker, pytest.mark.spark]

JOBS = Path(__file__).parents[1] / "spark" / "jobs"
SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
_SECONDS = 120
_PAUSE = Event()


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {_SECONDS} s"
        _PAUSE.wait(0.1)


def crawling(desk: Desk, retries: int = 0) -> tuple[str, Path]:
    """A subscription whose job takes minutes and notes its workers in a folder."""
    name = f"t{uuid.uuid4().hex[:8]}"
    notes = desk.home / "workers"
    notes.mkdir()
    desk.define(
        name,
        {
            "topics": [name],
            "consumer": {"group.id": f"{name}-lake", "auto.offset.reset": "earliest"},
            "max-retries": retries,
            "processing": {"transform": "user_transforms:crawling", "output": "lake"},
        },
    )
    desk.environment["PYTHONPATH"] = str(JOBS)
    desk.produce(name, [str(notes).encode()] * 1000, partitions=1)
    return name, notes


def ledger(desk: Desk, now: Callable[[Connection], datetime] = database_time) -> SqlLedger:
    return SqlLedger(Settings.from_environment({"TIDEGATE_HOME": str(desk.home)}).ledger, now=now)


@pytest.fixture
def no_nohup() -> Iterator[None]:
    """Whoever runs the tests under nohup hands it on to what they start."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("no_nohup")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_interrupted_stops_its_job_says_so_and_costs_no_delivery(desk: Desk, number: int) -> None:
    name, notes = crawling(desk)

    with desk.start(TIDEGATE, "run", name, "--json") as run:
        until(lambda: any(notes.iterdir()), "the job runs")
        run.send_signal(number)
        out, err = run.communicate(timeout=300)

    told = json.loads(out)
    assert (run.returncode, told["state"]) == (128 + number, "failed"), err
    assert told["error"].startswith(
        "interrupted in process: its job was stopped, and the delivery counts only if it was the 5th in a row; "
    )
    workers = [int(note.name) for note in notes.iterdir()]
    until(lambda: not any(map(psutil.pid_exists, workers)), "the workers are gone")
    assert ledger(desk).tries(told["batch_id"]) == Tries((Cause.INTERRUPTED,))


def test_a_run_that_was_killed_at_the_limit_is_known_to_be_dead_and_can_be_cleared_at_once(desk: Desk) -> None:
    name, notes = crawling(desk)

    with desk.start(TIDEGATE, "run", name, "--json") as run:
        until(lambda: any(notes.iterdir()), "the job runs")
        children = psutil.Process(run.pid).children(recursive=True)
        run.kill()
        for child in children:
            child.kill()
    early = json.loads(desk.run(TIDEGATE, "run", name, "--json", status=1))
    assert "is under way, with a sign of life" in early["error"]
    batch = ledger(desk).batch(early["batch_id"])
    assert batch.delivery is not None
    last_alive = datetime.now(UTC) - SILENT - timedelta(seconds=1)
    ledger(desk, now=lambda _: last_alive).note_alive(batch.id, batch.delivery.token)  # as if all that time had passed
    late = json.loads(desk.run(TIDEGATE, "run", name, "--json", status=1))
    assert late["state"] == "stopped"
    assert "ended without a word" in late["error"]

    cleared = json.loads(desk.run(TIDEGATE, "clear", name, "--answer", "skip", "--json"))
    assert cleared["state"] == "ignoring"
    assert json.loads(desk.run(TIDEGATE, "run", name, "--json"))["state"] == Outcome.IGNORED


@pytest.mark.parametrize(
    ("connection", "status", "told"),
    [
        ({"conn_type": "spark_connect", "host": "127.0.0.1"}, 1, "Spark Connect of connection spark_default can't be"),
        (
            {"conn_type": "spark", "host": "spark://127.0.0.1", "extra": {"spark-binary": SUBMIT}},
            1,
            "the Spark master of connection spark_default can't be reached",
        ),
        (
            {"conn_type": "spark", "host": "local[1]", "extra": {"spark-binary": "spark-submit-nowhere"}},
            2,
            "spark-submit-nowhere isn't on PATH",
        ),
    ],
)
def test_what_cannot_be_reached_costs_no_delivery_and_says_so_at_once(
    desk: Desk, connection: dict[str, object], status: int, told: str
) -> None:
    name, _ = crawling(desk)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    known = connection if connection["host"] == "local[1]" else {**connection, "port": port}
    desk.connect("spark_default", **known)

    for _ in range(2):
        ran = json.loads(desk.run(TIDEGATE, "run", name, "--json", status=status))
        assert told in ran["error"]
        assert ran["seconds"]["process"] < 10
        assert (ran["state"], ran["delivery"]) == (State.LANDED, 0)
