"""The wheel, unpacked: what somebody has who installs Tidegate, with its entry points, and nothing of the checkout."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
from checkout import PROJECT

_PROGRAMS = {
    "tidegate": ("-c", "import sys; from tidegate.cli.entry import main; sys.argv[0] = 'tidegate'; main()"),
    "pytest": ("-m", "pytest", "-p", "no:cacheprovider"),
}
_KEPT = ("PATH", "JAVA_HOME", "SPARK_SUBMIT_OPTS", "LANG")


@dataclass(frozen=True)
class Wheel:
    """The wheel's files; what it depends on is in the environment of the tests."""

    site: Path

    def run(self, folder: Path, command: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        """A command, `tidegate ...` or `pytest ...`, in a folder."""
        name, *arguments = command.split()
        kept = {variable: os.environ[variable] for variable in _KEPT if variable in os.environ}
        return subprocess.run(
            [sys.executable, "-P", *_PROGRAMS[name], *arguments],
            cwd=folder,
            env={**kept, "HOME": str(folder.parent), "PYTHONPATH": str(self.site), **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


def build_wheel(folder: Path, *also: str) -> Path:
    """The wheel of this checkout, built into the folder, and there also what hatchling calls so: `sdist`."""
    targets = [part for target in ("wheel", *also) for part in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *targets, "-d", str(folder)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        timeout=500,
    )
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    with ZipFile(build_wheel(folder)) as archive:
        archive.extractall(folder / "site")
    return Wheel(folder / "site")
