"""Prometheus and its promtool: those of this machine, or Debian's, unpacked below .cache."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from debian_packages import unpacked

_SECONDS = 60


def program(name: str) -> Path:
    """The path of `prometheus` or `promtool`. Raises NoPackageError where there is none, nor a way to get one."""
    installed = shutil.which(name)
    return Path(installed) if installed else _root() / "usr/bin" / name


def promtool(*arguments: str, given: str | None = None) -> str:
    """What promtool prints, which ends well; `given` is its standard input. AssertionError otherwise."""
    command = [str(program("promtool")), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@cache
def _root() -> Path:
    return unpacked("prometheus", ["prometheus"])
