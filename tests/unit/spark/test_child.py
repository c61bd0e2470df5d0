import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest
from running import ends

from tidegate.model.errors import BatchFailedError, DeliveryTimeoutError
from tidegate.spark.child import Child, SpawnedChild, Start, run_child
from tidegate.spark.fork_server import ForkServer

pytestmark = pytest.mark.long

Python = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.end()
    assert server.process.wait(120) == 0


@pytest.fixture(params=["spawned", "forked"])
def start(request: pytest.FixtureRequest) -> Start:
    return SpawnedChild if request.param == "spawned" else request.getfixturevalue("fork_server").start


@pytest.fixture
def python(tmp_path: Path) -> Python:
    def command(source: str) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(source)
        return [sys.executable, str(program)]

    return command


def test_every_line_is_passed_on_and_the_environment_is_added(python: Python, start: Start) -> None:
    lines: list[str] = []
    run_child(
        python("import os; print('one'); print(os.environ['EXTRA'])"),
        {"EXTRA": "two"},
        30,
        lines.append,
        lambda: None,
        start=start,
    )
    assert lines == ["one", "two"]


def test_the_job_sees_none_of_our_secrets(python: Python, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "hush-hush")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    lines: list[str] = []
    source = "import os; print(*(os.environ.get(n) for n in ('AIRFLOW_CONN_KAFKA_DEFAULT', 'SPARK_LOCAL_IP')))"
    run_child(python(source), {}, 30, lines.append, lambda: None, start=start)
    assert lines == ["None 127.0.0.1"]


def test_a_failing_job_raises_with_its_last_lines(python: Python, start: Start) -> None:
    with pytest.raises(BatchFailedError, match="status 3") as failed:
        run_child(python("print('the reason'); raise SystemExit(3)"), {}, 30, lambda _: None, lambda: None, start=start)
    assert "the reason" in str(failed.value)
    assert not isinstance(failed.value, DeliveryTimeoutError)


def test_a_job_past_its_time_is_asked_to_stop_first(python: Python, start: Start) -> None:
    lines: list[str] = []
    source = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), sys.exit(1)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(DeliveryTimeoutError, match=r"consumer\.max\.poll\.interval\.ms"):
        run_child(python(source), {}, 1.5, lines.append, lambda: None, start=start)
    assert lines == ["ready", "asked"]


def test_what_the_job_started_is_stopped_with_it(python: Python, start: Start) -> None:
    pids: list[str] = []
    source = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(DeliveryTimeoutError):
        run_child(python(source), {}, 1.5, pids.append, lambda: None, start=start)
    assert ends(int(pids[0]))


def test_a_process_that_the_job_leaves_behind_and_that_could_still_print_is_not_waited_for_beyond_the_time(
    python: Python, start: Start
) -> None:
    lines: list[str] = []
    source = "import subprocess\nprint(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)\n"
    began = time.monotonic()
    run_child(python(source), {}, 3, lines.append, lambda: None, start=start)
    assert time.monotonic() - began < 30
    psutil.Process(int(lines[0])).kill()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell's background job is born deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_before_the_job_is_waited_for_stops_it(
    python: Python, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[Child] = []

    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    def begin(command: Sequence[str], environment: Mapping[str, str]) -> Child:
        began.append(start(command, environment))
        return began[0]

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_child(python("import time; time.sleep(30)"), {}, 60, lambda _: None, lambda: None, start=begin)
    assert began[0].wait(0) == -signal.SIGTERM


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_the_task_stops_the_job(python: Python, start: Start) -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        os.kill(os.getpid(), signal.SIGINT)

    source = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        run_child(python(source), {}, 60, interrupt, lambda: None, start=start)
    assert ends(pids[0])
