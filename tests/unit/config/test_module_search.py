"""Where a job's modules are: what this process adds to its interpreter, and the installation's own folder first."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tidegate.config.module_search import find_module, hiding, module_path


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    folder = tmp_path / "spark_jobs"
    folder.mkdir()
    return folder


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])  # as Airflow adds it
    return folder


def write(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("raise RuntimeError('imported')")


def test_the_installations_own_folder_comes_first_and_what_was_added_here_follows(jobs: Path, dags: Path) -> None:
    path = module_path(jobs)
    assert path.first[0] == str(jobs)
    assert path.last[-1] == str(dags)


def test_a_folder_that_is_there_twice_stands_once(dags: Path) -> None:
    path = module_path(dags)
    assert [*path.first, *path.last].count(str(dags)) == 1


def test_what_the_environment_says_now_goes_on_to_the_job(dags: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though this process has begun with another PYTHONPATH, or none."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(dags), str(dags / "nowhere"))))
    path = module_path(None)
    assert (path.first[-1], str(dags) in path.last) == (str(dags), False)


def test_a_folder_that_is_missing_is_left_out(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(jobs / "nowhere")])
    assert [
        folder
        for path in (module_path(jobs / "none"), module_path(None))
        for part in path
        for folder in part
        if str(jobs) in folder
    ] == []


def test_what_is_the_interpreters_stays_the_interpreters() -> None:
    program = (
        'import sys; sys.path.insert(0, ""); from tidegate.config.module_search import *; '
        "print(*module_path(None).first, *module_path(None).last)"
    )
    include = Path(__file__).parents[3] / "include"

    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({sysconfig.get_path('scripts')!r}); {program}"],
        env={"PYTHONPATH": str(include)},
        capture_output=True,
        text=True,
        check=True,
    )

    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    found = done.stdout.split()
    assert found[0] == str(include)
    assert not [folder for folder in found if folder in own or folder.startswith(sys.base_prefix)]
    assert os.getcwd() not in found  # noqa: PTH109 (as Python has it)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mine", "spark_jobs/mine.py"),
        ("ours", "spark_jobs/ours/__init__.py"),
        ("ours.deep.words", "spark_jobs/ours/deep/words.py"),
        ("loose.words", "spark_jobs/loose/words.py"),
        ("loose.deep.words", "spark_jobs/loose/deep/words.py"),
        ("theirs.words", "dags/theirs/words.py"),
    ],
)
def test_a_module_is_found_and_not_imported(jobs: Path, dags: Path, name: str, file: str) -> None:
    write(jobs, "mine.py", "ours/__init__.py", "ours/deep/__init__.py", "ours/deep/words.py")
    write(jobs, "loose/words.py", "loose/deep/words.py")
    write(dags, "mine.py", "ours/__init__.py", "ours/dags_alone.py", "theirs/__init__.py", "theirs/words.py")
    found = find_module(name, jobs)
    assert found is not None
    assert found.origin == str(jobs.parent / file)


@pytest.mark.parametrize(
    "name", ["nowhere", "nowhere.at_all", "ours.nowhere", "mine.nowhere", "ours.dags_alone", "a..b"]
)
def test_a_module_that_is_not_there(jobs: Path, dags: Path, name: str) -> None:
    write(jobs, "mine.py", "ours/__init__.py")
    write(dags, "ours/__init__.py", "ours/dags_alone.py")
    assert find_module(name, jobs) is None


@pytest.mark.parametrize("name", ["math", "sys", "json.decoder", "yaml"])
def test_what_python_has_itself_is_found_too(jobs: Path, name: str) -> None:
    assert find_module(name, jobs) is not None


def test_what_hides_modules_that_jobs_need_is_found(jobs: Path) -> None:
    hides = {"calendar.py", "logging/__init__.py", "pyspark.py", "tidegate_spark.py", "types.py"}
    write(jobs, *hides)
    write(
        jobs, "flights.py", "queue/old.py", "shop/json.py", "tidegate_spark/__init__.py", "test.py", "sys.py", "os.py"
    )
    found = {str(file.relative_to(jobs)): module for file, module in hiding(jobs)}
    assert found.keys() == hides
    assert (found["types.py"], found["pyspark.py"]) == ("Python's types", "pyspark")
    assert list(hiding(jobs / "none")) == []
