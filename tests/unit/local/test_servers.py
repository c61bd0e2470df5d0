"""A server is awaited, its failure shows its log, and neither it nor its children outlive whoever started it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tidegate_local.errors import ServerFailedError
from tidegate_local.loopback import HOST, free_port
from tidegate_local.servers import Server, checked

WAITS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
HAS_A_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {WAITS!r}], process_group=0)
print(child.pid, flush=True)
child.wait()
"""
STARTS_A_SERVER_AND_WAITS = """
import signal, sys, time
from pathlib import Path
from tidegate_local.servers import Server
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is born deaf to it
server = Server("child", [sys.executable, "-c", sys.argv[2]], log=Path(sys.argv[1]))
print(server.pid, flush=True)
time.sleep(600)
"""


def _wait(holds: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started = []

    def begin(code: str, port: int | None = None) -> Server:
        started.append(Server("the server", [sys.executable, "-c", code], log=tmp_path / "server.log", port=port))
        return started[-1]

    yield begin
    for server in started:
        server.kill()


def _prints(server: Server) -> Callable[[], str]:
    return server.log.read_text


def test_it_is_ready_when_the_condition_holds(start):
    server = start(WAITS)
    server.wait_until(_prints(server), seconds=120)
    assert server.running
    server.stop()
    assert not server.running
    assert _gone(server.pid)


def test_one_that_dies_fails_the_wait_at_once_with_its_last_lines(start):
    server = start("import sys; print('the disk is full'); sys.exit(3)")
    with pytest.raises(ServerFailedError, match=r"(?s)the server ended with status 3.*the disk is full"):
        server.wait_until(lambda: False, seconds=60)


def test_one_whose_port_is_taken_is_not_started(start, tmp_path: Path):
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServerFailedError) as failed:
            start(WAITS, port)
    assert str(failed.value) == (
        f"Port {port} for the server is taken by another process: stop what listens there, or run again, which chooses "
        "a free port unless TIDEGATE_KAFKA_PORT, TIDEGATE_SPARK_PORT or TIDEGATE_AIRFLOW_PORT names this one."
    )
    assert not (tmp_path / "server.log").exists()


def test_one_that_ends_while_another_has_its_port_says_that_and_not_its_last_lines(start, tmp_path: Path):
    server = start(WAITS, port := free_port())
    with socket.socket() as other:
        other.bind((HOST, port))
        other.listen()
        os.kill(server.pid, signal.SIGTERM)
        with pytest.raises(ServerFailedError) as failed:
            server.wait_until(lambda: False, seconds=60)
    assert str(failed.value).startswith(f"Port {port} for the server is taken by another process: stop what listens")
    assert str(failed.value).endswith(f" Its log is {tmp_path}/server.log.")
    assert "\n" not in str(failed.value)


def test_one_that_dies_and_leaves_its_port_free_shows_its_last_lines(start):
    server = start("import sys; print('the disk is full'); sys.exit(3)", free_port())
    with pytest.raises(ServerFailedError, match=r"(?s)^the server ended with status 3.*the disk is full"):
        server.wait_until(lambda: False, seconds=60)


def test_one_that_is_never_ready_fails_after_the_deadline(start):
    server = start(WAITS)
    with pytest.raises(ServerFailedError, match=r"wasn't ready within 0.2 s"):
        server.wait_until(lambda: False, seconds=0.2)


def test_one_that_ignores_sigterm_is_killed(start):
    server = start(DEAF)
    server.wait_until(_prints(server), seconds=120)
    server.stop(seconds=0.2)
    assert _gone(server.pid)


def test_its_children_end_with_it_even_in_groups_of_their_own(start):
    server = start(HAS_A_CHILD)
    server.wait_until(_prints(server), seconds=120)
    child = int(server.log.read_text().split()[0])
    server.stop()
    _wait(lambda: _gone(child))


def test_its_children_end_where_it_was_asked_before_and_has_ended_without_them(start):
    server = start(HAS_A_CHILD)
    server.wait_until(_prints(server), seconds=120)
    child = int(server.log.read_text().split()[0])
    server.ask_to_stop()
    _wait(lambda: not server.running)
    server.stop()
    _wait(lambda: _gone(child))


def test_the_log_of_the_start_before_is_kept(start, tmp_path: Path):
    for word in ("first", "second"):
        server = start(f"print('{word}')")
        server.wait_until_done(seconds=120)
    assert (tmp_path / "server.log").read_text() == "second\n"
    assert (tmp_path / "server.log.old").read_text() == "first\n"


def test_a_program_that_fails_is_told_apart_from_one_that_ends_well(start):
    with pytest.raises(ServerFailedError, match="ended with status 1"):
        start("raise SystemExit(1)").wait_until_done(seconds=120)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_dies_with_its_parent_however_that_ends(tmp_path: Path, how: signal.Signals):
    command = [sys.executable, "-c", STARTS_A_SERVER_AND_WAITS, str(tmp_path / "log"), WAITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        server = int(parent.stdout.readline())
        _wait((tmp_path / "log").read_text)
        os.kill(parent.pid, how)
        parent.wait(120)
    _wait(lambda: _gone(server))


def test_a_thread_must_not_start_one(tmp_path: Path):
    errors = []

    def begin() -> None:
        try:
            Server("x", ["true"], log=tmp_path / "log")
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_that_a_server_is_killed_is_said_while_something_else_is_waited_for(
    start: Callable[[str], Server], tmp_path: Path
) -> None:
    server = start(WAITS)
    server.wait_until(lambda: "up" in server.log.read_text(), seconds=120)
    threading.Timer(0.2, os.kill, (server.pid, signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(ServerFailedError) as failed, checked(server.check):
        threading.Event().wait(20)
    assert time.monotonic() - began < 5
    assert str(failed.value) == (
        f"the server ended with status -9 (SIGKILL). The last lines of {tmp_path}/server.log:\nup"
    )
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
