"""The servers that the workers of a test run share: one for all, outliving each worker and never the run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from class_data import VARIABLES, archive, options

from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.postgres

SUPPORT = Path(__file__).parents[1] / "support"
SECONDS = 120
NOTES_ITS_SERVER = """
import os, signal, time
from contextlib import suppress
from pathlib import Path
import psutil

def note(postgres, name):
    postgres.execute("SELECT 1")
    Path(name + ".new").write_text(f"{postgres.pid} {os.getpid()}")
    Path(name + ".new").rename(name)
"""
WAITS = """
def wait_for_the_end_of(worker):
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.05)

def wait_for(name):
    deadline = time.monotonic() + 60
    while not Path(name).exists():
        assert time.monotonic() < deadline, name
        time.sleep(0.05)
"""


def start(folder: Path, **modules: str) -> "subprocess.Popen[bytes]":
    """A run of these modules, each in a worker of its own."""
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(NOTES_ITS_SERVER + WAITS + text)
    options = ["-p", "shared_servers", "-p", "no:cacheprovider", f"--basetemp={folder / 'temp'}", "-c", os.devnull]
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", f"--rootdir={folder}", *options, folder],
            env={**os.environ, "PYTHONPATH": str(SUPPORT)},
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def wait_until(holds: Callable[[], bool], folder: Path, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, (folder / "output").read_text()
        time.sleep(0.05)


def noted(folder: Path, name: str) -> tuple[int, int]:
    """The process ids of the server and of the worker that used it."""
    server, worker = (folder / name).read_text().split()
    return int(server), int(worker)


@pytest.mark.nightly
def test_workers_share_a_server_that_outlives_the_one_that_asked_first_and_ends_with_the_run(tmp_path: Path) -> None:
    first = """
def test_that_kills_its_worker(postgres):
    if not Path("first").exists():  # xdist runs it again, in another worker
        note(postgres, "first")
        os.kill(os.getpid(), signal.SIGKILL)
"""
    second = """
def test_that_comes_later(request):
    wait_for("first")
    wait_for_the_end_of(int(Path("first").read_text().split()[1]))
    note(request.getfixturevalue("postgres"), "second")
"""
    run = start(tmp_path, first=first, second=second)
    wait_until(lambda: run.poll() is not None, tmp_path)
    assert "1 failed, 2 passed" in (tmp_path / "output").read_text()
    (server, one), (same_server, other) = noted(tmp_path, "first"), noted(tmp_path, "second")
    assert (server == same_server, one == other) == (True, False)
    assert not psutil.pid_exists(server)


@pytest.mark.nightly
def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    run = start(tmp_path, only="def test_that_waits(postgres):\n    note(postgres, 'only')\n    wait_for('never')\n")
    wait_until((tmp_path / "only").exists, tmp_path)
    server, _ = noted(tmp_path, "only")
    run.kill()
    run.wait()
    wait_until(lambda: not psutil.pid_exists(server), tmp_path, 30)  # the test itself would wait for longer


@pytest.mark.broker
@pytest.mark.spark
def test_their_java_has_its_classes_from_an_archive(broker: Broker, spark_connect: SparkConnect) -> None:
    for program, server in (("kafka", broker), ("spark", spark_connect)):
        assert str(archive(program).resolve()) in Path(f"/proc/{server.pid}/maps").read_text()


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.usefixtures("broker", "spark_connect")
@pytest.mark.parametrize("program", VARIABLES)
def test_java_starts_without_a_word_about_an_archive_that_is_not_for_it(program: str) -> None:
    assert archive(program).exists()
    java = [str(find_java().program), *options(program).split()]
    command = [*java, "-cp", os.pathsep.join(("/nowhere", os.curdir)), "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert "cds" not in said.stdout + said.stderr
    assert len(said.stderr.splitlines()) == 3, said.stderr
