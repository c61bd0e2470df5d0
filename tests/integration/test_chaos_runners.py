"""Tasks that end without a word: by a signal that chaos did not send, and with the chaos that started them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from chaos.kinds import KINDS
from chaos.runners import Child, start_fork_server
from chaos.tally import ABORTED, Tally
from chaos.tasks import PYTHON_PATH, Place, Task
from waiting import wait_until

ASSERTION = "python: rdkafka_queue.h:1052: rd_kafka_enq_once_del_source_return: Assertion `eonce->refcnt > 0' failed.\n"

STARTS_A_TASK = """
import sys
from pathlib import Path
from chaos.kinds import KINDS
from chaos.runners import Child, start_fork_server
from chaos.tasks import Place, Task
start_fork_server()
print(Child(Task(Place(Path.cwd(), "", "", kind=KINDS["renamed"]), Path("runner.log"))).pid, flush=True)
sys.stdin.read()
"""


def is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(("logged", "error", "unexpected"), [(ASSERTION, ABORTED, 0), ("", "Died", 1)])
def test_only_what_is_known_of_librdkafka_is_expected(logged: str, error: str, unexpected: int, tmp_path: Path) -> None:
    start_fork_server()
    log = tmp_path / "runner.log"
    log.write_text(logged, encoding="utf-8")
    waits = Place(tmp_path, "", "", kind=KINDS["renamed"])  # for a definition that nobody writes
    child = Child(Task(waits, log))
    child.send(signal.SIGABRT)
    said = child.said()

    assert said is not None
    assert said.error == error
    tally = Tally()
    tally.failed(error, said.message, is_ours=said.is_ours)
    assert len(tally.unexpected) == unexpected


def test_a_paused_task_dies_with_chaos_wherever_that_was_started(tmp_path: Path) -> None:
    chaos = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_TASK],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": PYTHON_PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with chaos:
        assert chaos.stdout is not None
        task = psutil.Process(int(chaos.stdout.readline()))
        wait_until((tmp_path / "runner.log").exists, "the task hasn't begun")  # by then it is on its leash
        task.suspend()
        chaos.kill()
    try:
        wait_until(lambda: is_over(task), "the task is still there")
    finally:
        with suppress(psutil.NoSuchProcess):
            task.kill()
