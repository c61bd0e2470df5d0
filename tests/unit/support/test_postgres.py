"""The local PostgreSQL: kept data, crashes, whom root lets run it, and what is said where there is none."""

import os
from pathlib import Path

import postgres as local
import psutil
import pytest
from by_night import one_in
from postgres import Postgres, find_programs, short_lived
from sqlalchemy import NullPool, create_engine, text

from tidegate_local.errors import PreflightError, ServerFailedError


def _ask(url: str, query: str) -> object:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return connection.scalar(text(query))


@pytest.mark.nightly
@pytest.mark.postgres
def test_data_outlives_a_restart_and_a_crash() -> None:
    with short_lived() as server:
        url = server.create_database("kept")
        with create_engine(url, poolclass=NullPool).begin() as connection:
            connection.execute(text("CREATE TABLE kept AS SELECT 7 AS number"))
        pid = server.pid
        for end in ("stop", "kill"):
            getattr(server, end)()
            assert not server.running
            server.restart()
            assert _ask(url, "SELECT number FROM kept") == 7
        assert server.pid != pid
        assert _ask(server.create_database("copy", like="kept"), "SELECT number FROM kept") == 7
        server.drop_database("copy")
        assert _ask(server.url, "SELECT count(*) FROM pg_database WHERE datname = 'copy'") == 0
    assert not server.running


@pytest.mark.nightly
@pytest.mark.postgres
def test_a_server_that_is_killed_leaves_no_process_that_would_keep_the_next_one_from_starting() -> None:
    with short_lived() as server:
        engine = create_engine(server.url, poolclass=NullPool)
        for _ in range(5):
            with engine.connect() as connection:
                server.kill()
                assert not server._processes()
                connection.invalidate()
            server.restart()
        assert len(server._processes()) > 1


@pytest.mark.postgres
def test_it_listens_on_loopback_only_asks_for_a_password_and_writes_its_data_for_good() -> None:
    with short_lived({"work_mem": "5MB"}) as server:
        listening = {c.laddr.ip for c in psutil.Process(server.pid).net_connections("inet") if c.status == "LISTEN"}
        assert listening == {"127.0.0.1"}
        assert [_ask(server.url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "work_mem")] == [
            "on",
            "on",
            "5MB",
        ]
        assert psutil.Process(server.pid).uids().real != 0
        with pytest.raises(Exception, match="no password supplied"):
            _ask(server.url.replace(f":{server.password}@", "@"), "SELECT 1")


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs are below a folder that only its owner may enter, as those of a clone may be."""
    package = find_programs().parents[1]
    folder_of_root = tmp_path / "hidden"
    folder_of_root.mkdir(mode=0o700)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        (folder_of_root / folder.name).symlink_to(folder)
    programs = folder_of_root / find_programs().relative_to(package.parent)
    monkeypatch.setattr(local, "find_programs", lambda: programs)


@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as somebody else")
@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("umask", one_in(2, [0o022, 0o077]))
def test_programs_that_the_other_user_cannot_reach_are_copied(umask: int) -> None:
    before = os.umask(umask)
    try:
        with short_lived() as server:
            assert _ask(server.url, "SELECT 1") == 1
    finally:
        os.umask(before)


@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as somebody else")
@pytest.mark.usefixtures("hidden")
def test_where_neither_programs_nor_data_can_be_reached_the_data_is_what_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(ServerFailedError, match=r"(?s)could not be set up.*Permission denied"):
        Postgres(data=tmp_path / "data")


@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as somebody else")
def test_data_that_the_other_user_cannot_reach_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(ServerFailedError, match=r"(?s)could not be set up.*Permission denied"):
        Postgres(data=tmp_path / "data")


def _install(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for program in ("postgres", "initdb"):
        (folder / program).touch()
    return folder


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any PostgreSQL: its folder of packages and its folder on PATH."""
    monkeypatch.setattr(local, "_of_the_environment", list)
    monkeypatch.setattr(local, "_PACKAGED", tmp_path / "packaged")
    monkeypatch.setenv("PATH", str(tmp_path / "on_path"))
    return tmp_path


def test_without_any_postgres_the_sentence_says_how_to_get_one(nowhere: Path) -> None:
    (nowhere / "packaged" / "15" / "bin").mkdir(parents=True)  # clients only
    with pytest.raises(PreflightError, match=r"make install.*apt-get install postgresql"):
        find_programs()


def test_the_newest_of_the_machine_is_taken_and_else_the_one_on_the_path(nowhere: Path) -> None:
    on_path = _install(nowhere / "on_path")
    (on_path / "postgres").chmod(0o755)
    assert find_programs() == on_path
    for version in ("9.6", "15", "16"):
        _install(nowhere / "packaged" / version / "bin")
    assert find_programs() == nowhere / "packaged" / "16" / "bin"


def test_the_environment_has_one_of_its_own() -> None:
    assert "site-packages" in find_programs().parts


def test_root_without_a_user_to_run_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(local, "_ACCOUNTS", ("no-such-user",))
    with pytest.raises(PreflightError, match="refuses to run as root"):
        local._account()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert local._account() is None
