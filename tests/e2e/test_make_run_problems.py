"""What `make install` and `make run` say when the machine isn't ready: one clear sentence, and nothing started."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from checkout import PROJECT

from tidegate_local.loopback import HOST
from tidegate_local.run_lock import run_lock


def _refused(project: Path, **environment: str) -> str:
    command = [sys.executable, "-m", "tidegate_local.run", "--once", "--project", str(project)]
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | environment
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 1
    assert ended.stderr == ""
    assert ended.stdout.startswith("make run: ")
    assert ended.stdout.count("\n") == 1
    assert {path.name for path in (project / "data").iterdir()} <= {"run.lock", "ports.json"}, "something was started"
    return ended.stdout


def _java(folder: Path, version: str) -> str:
    folder.mkdir()
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_no_java(tmp_path: Path):
    said = _refused(tmp_path, PATH=str(tmp_path))
    assert "Java was not found: install Java 17 or newer" in said


def test_old_java(tmp_path: Path):
    said = _refused(tmp_path, PATH=_java(tmp_path / "bin", "11.0.2"))
    assert "version 11, too old: install Java 17 or newer" in said


def test_a_configured_port_is_taken(tmp_path: Path):
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        port = listening.getsockname()[1]
        for variable in ("TIDEGATE_KAFKA_PORT", "TIDEGATE_SPARK_PORT", "TIDEGATE_AIRFLOW_PORT"):
            said = _refused(tmp_path, **{variable: str(port)})
            assert f"Port {port}" in said
            assert variable in said


def test_another_make_run_works_in_the_folder(tmp_path: Path):
    with run_lock(tmp_path / "data" / "run.lock"):
        said = _refused(tmp_path)
    assert f"Another make run works in this folder (process {os.getpid()})" in said


def _not_installed(folder: Path, python: Path) -> str:
    """What `make install` says with this Python alone, in a checkout of its own."""
    for name in ("Makefile", "requirements.lock", "requirements-build.lock", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder)
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(folder)}
    ended = subprocess.run(
        ["make", "install", f"PYTHON={python}"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert not (folder / ".venv").exists()
    return ended.stdout + ended.stderr


def test_a_python_that_is_too_old(tmp_path: Path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9); $2"\n')
    python.chmod(0o755)
    said = _not_installed(tmp_path, python)
    assert f"Python 3.11 to 3.13 is needed and {sys.executable} is 3.9: name one with make PYTHON=..." in said


def test_a_python_without_pip(tmp_path: Path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = tmp_path / "bare/bin/python"
    said = _not_installed(tmp_path, python)
    assert f"{python} has no pip, which installs uv: name another one with make PYTHON=..., or install uv" in said
