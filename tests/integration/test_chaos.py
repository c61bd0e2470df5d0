"""Half a minute of chaos, with strategies and blows drawn anew each time; `make chaos` has longer ones."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from chaos.tasks import PYTHON_PATH
from waiting import wait_until

PROJECT = Path(__file__).parents[2]
DEAF = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
"""Begins a command line as a script begins one in the background."""
CHAOS = [*DEAF, sys.executable, "-m", "chaos", "--json", "--cache", str(PROJECT / ".cache")]
_SECONDS = 600

pytestmark = [pytest.mark.broker, pytest.mark.postgres]


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    """Chaos that writes below a folder."""
    return subprocess.Popen(
        [*CHAOS, *options],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONPATH": PYTHON_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes(folder: Path) -> list[psutil.Process]:
    """Those that write below the folder, and have not ended."""
    found = psutil.process_iter(["cmdline", "environ", "status"])
    mine = [each for each in found if each.info["status"] != psutil.STATUS_ZOMBIE]
    return [
        each
        for each in mine
        if (each.info["environ"] or {}).get("TMPDIR", "").startswith(str(folder))
        or str(folder) in " ".join(each.info["cmdline"])
    ]


def pause_a_task(chaos: int) -> bool:
    """Stop one of its tasks, the grandchildren that a server forks, as a strike does; whether there was one."""
    for child in psutil.Process(chaos).children():
        for task in child.children() if "forkserver" in " ".join(child.cmdline()) else []:
            with suppress(psutil.NoSuchProcess):
                task.suspend()
                return True
    return False


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can enter, who runs PostgreSQL where this is root."""
    with TemporaryDirectory(prefix="tidegate-test-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.timeout(720)
def test_every_promise_holds_while_everything_is_killed(folder: Path) -> None:
    chaos = start(folder, "--minutes", "0.5")
    figures, shown = chaos.communicate(timeout=700)

    assert chaos.returncode == 0, f"not clean:\n{figures}\n{shown}"
    told = json.loads(figures)
    wrong = ("duplicates", "losses", "strangers", "disorder", "lag", "open_batches", "orphans")
    assert {told[name] for name in wrong} == {0}
    assert all(said.startswith("lag 0 after") for said in told["quiet"].values())
    assert "task" in told["kills"]
    assert told["kills"].keys() & {"broker", "postgres"}
    assert told["batches"] > 1
    assert told["records"] > 1000
    assert processes(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.nightly
@pytest.mark.timeout(2000)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_nothing_goes_on_when_it_is_interrupted(number: signal.Signals, status: int, folder: Path) -> None:
    chaos = start(folder, "--minutes", "30", "--seed", "4")
    try:
        wait_until(lambda: any(folder.glob("*/lake/batch_id=*")), "no batch was published", _SECONDS)
        wait_until(lambda: pause_a_task(chaos.pid), "no task was running", _SECONDS)
        chaos.send_signal(number)
        chaos.communicate(timeout=_SECONDS)
    finally:
        chaos.kill()

    assert chaos.returncode == status
    wait_until(lambda: not processes(folder), f"still there: {processes(folder)}", _SECONDS)
