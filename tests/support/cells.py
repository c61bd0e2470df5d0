"""The matrix of tests/e2e/cells.toml: each cell is an Airflow, a Spark, the way from one to the other, and a Python."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from documents import ROOT

CELLS = ROOT / "tests/e2e/cells.toml"
CACHE = ROOT / ".cache"


@dataclass(frozen=True)
class Cell:
    """Versions, those of `constraints` as pip's constraints; without a version what pip finds, or the checkout's."""

    engine: Literal["connect", "submit"] = "connect"
    airflow: str | None = None
    spark: str | None = None
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    constraints: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The name of its tests."""
        return (
            f"airflow-{self.airflow}-spark-{self.spark}-{self.engine}-python-{self.python}" if self.airflow else "today"
        )

    @property
    def pinned(self) -> tuple[str, ...]:
        """All that pip is told, as lines of a constraints file."""
        named = (("apache-airflow", self.airflow), ("pyspark-client", self.spark))
        return (*(f"{name}=={version}" for name, version in named if version), *self.constraints)

    def interpreter(self) -> str | None:
        """This machine's Python of the version, or None."""
        return next((each for each in _pythons(self.python) if _runs(each, self.python)), None)


def cells() -> tuple[Cell, ...]:
    """Those of the file."""
    said = tomllib.loads(CELLS.read_text("utf-8"))
    return tuple(Cell(**each, constraints=tuple(said["constraints"][each["airflow"]])) for each in said["cells"])


def spark_home(version: str, pip: Path) -> Path:
    """The folder of a whole Spark, apart from every environment; it is fetched once and then kept below .cache."""
    kept = CACHE / f"pyspark-{version}"
    if not kept.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            target = Path(temporary) / "spark"
            command = [pip, "install", "--quiet", "--no-deps", "--target", target, f"pyspark=={version}"]
            subprocess.run(command, cwd=temporary, check=True, timeout=600)
            target.rename(kept)
    return kept / "pyspark"


def _pythons(version: str) -> Iterator[str]:
    """Where a Python of this version may be: this one, on PATH, or one of pyenv that isn't chosen."""
    yield sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which(f"python{version}", path=folder)
        if found:
            yield found
    for folder in sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*")):
        yield str(folder / "bin" / "python")


def _runs(python: str, version: str) -> bool:
    """Whether it is one: a shim of pyenv may have nothing behind it."""
    asked = [python, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2], sep='.')"]
    answer = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=False, timeout=500)
    return answer.stdout.strip() == version
