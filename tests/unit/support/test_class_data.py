import os
import subprocess
from pathlib import Path

import class_data
import pytest
from class_data import VARIABLES, archive, make_once, options


class Server:
    """Writes its archive as Java does at its end."""

    def __init__(self, started: list[str]) -> None:
        *_, given = [part for part in os.environ[VARIABLES["kafka"]].split() if "Archive" in part]
        started.append(given)
        file = given.partition("=")[2]
        self._process = subprocess.Popen(
            ["sh", "-c", f"trap 'touch {file}; exit' TERM; echo; while :; do sleep 0.1; done"], stdout=subprocess.PIPE
        )
        self.pid = self._process.pid

    def wait(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_data, "FOLDER", tmp_path)
    monkeypatch.setenv(VARIABLES["kafka"], options("kafka"))
    return tmp_path


def test_an_archive_is_made_once_by_a_server_that_writes_it_at_its_end(folder: Path):
    started: list[str] = []
    for _ in range(2):
        make_once("kafka", lambda _: Server(started))
    assert [part.partition("=")[0] for part in started] == ["-XX:ArchiveClassesAtExit"]
    assert [file.name for file in folder.glob("*.jsa")] == [archive("kafka").name]
    assert os.environ[VARIABLES["kafka"]] == options("kafka")


def test_who_gives_java_other_options_needs_none(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLES["kafka"], "-Xss4m")
    make_once("kafka", pytest.fail)
    assert list(folder.iterdir()) == []


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    known = {archive("kafka"), archive("spark")}
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert len(known | {archive("kafka"), archive("spark")}) == 4
