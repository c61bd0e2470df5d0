"""Two local stacks never work in one folder at the same time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate_local.errors import PreflightError
from tidegate_local.run_lock import run_lock

HOLDS = """
import sys
from pathlib import Path
from tidegate_local.run_lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_one_is_refused_and_told_who_holds_it(tmp_path: Path):
    path = tmp_path / "data" / "run.lock"
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(PreflightError, match=f"process {holder.pid}"), run_lock(path):
            pass
        holder.kill()
    with run_lock(path):
        assert path.read_text() == str(os.getpid())
