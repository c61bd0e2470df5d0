"""Tidegate as pip or uv installs it: environment, AIRFLOW_HOME and working folder have nothing of the checkout."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cells import CACHE, Cell
from documents import all_blocks
from wheel import build_wheel

PAGE = [block for block in all_blocks() if block.page.name == "install.md"]
_PASSED = ("PATH", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "JAVA_HOME")


@dataclass
class Installed:
    """An environment with Airflow and the wheel, an AIRFLOW_HOME, and a working folder that is neither."""

    cell: Cell
    folder: Path
    around: dict[str, str]

    @property
    def programs(self) -> Path:
        return self.folder / "environment" / "bin"

    @property
    def airflow_home(self) -> Path:
        return self.folder / "airflow"

    @property
    def home(self) -> Path:
        return self.airflow_home / "tidegate"

    def run(self, *command: str, status: int = 0, around: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [self.programs / command[0], *command[1:]],
            cwd=self.folder / "elsewhere",
            env=around or self.around,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == status, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def write(self, place: Path, text: str) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def installed_by_pip(cell: Cell, python: str, folder: Path, extras: str, more: Sequence[str] = ()) -> Installed:
    """The wheel with these extras, and more packages, in an empty environment of its own below the folder."""
    made, wheel = _empty(cell, folder, (python, "-m", "venv"))
    (folder / "constraints.txt").write_text("".join(f"{each}\n" for each in cell.pinned))
    quietly = ("--quiet", "--no-compile")  # of a gigabyte of packages a few are imported
    made.run("pip", "install", *quietly, "--constraint", f"{folder}/constraints.txt", f"{wheel}[{extras}]", *more)
    return made


def installed_by_uv(folder: Path, extras: str) -> Installed:
    """The same with the newest of all that the wheel needs, in a seventh of pip's CPU time."""
    uv = shutil.which("uv") or str(CACHE / "uv" / "bin" / "uv")
    made, wheel = _empty(Cell(), folder, (uv, "venv", "--quiet", "--seed", "--python", sys.executable))
    command = [uv, "pip", "install", "--quiet", "--python", made.programs / "python", f"{wheel}[{extras}]"]
    subprocess.run(command, cwd=folder / "elsewhere", check=True, timeout=600)
    return made


def _empty(cell: Cell, folder: Path, venv: Sequence[str]) -> tuple[Installed, Path]:
    """An environment without packages but pip, and the wheel."""
    wheel = build_wheel(folder / "dist", "sdist")
    subprocess.run([*venv, folder / "environment"], check=True, timeout=500)
    (folder / "elsewhere").mkdir()
    around = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith("PIP_")}
    around |= {"HOME": os.environ["HOME"], "AIRFLOW_HOME": str(folder / "airflow")}
    return Installed(cell, folder, around), wheel
