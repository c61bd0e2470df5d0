"""`tidegate init`: what it writes and where, and that it never writes over anything."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from documents import blocks
from typer.testing import CliRunner, Result

from tidegate.cli.app import app

FILES = ["include/subscriptions/orders.yaml", "spark_jobs/orders_transform.py", "tests/orders.cases.yaml"]
FILES += ["tests/test_orders.py"]
DAGS = ["tidegate_problems.py", "tidegate_subscriptions.py"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, of somebody without an Airflow."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)  # collecting tests/dags sets it
    return folder


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


def texts(folder: Path) -> Mapping[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_first_subscription_is_written_into_an_empty_folder(here: Path) -> None:
    done = init("orders")

    assert done.exit_code == 0, done.output
    assert sorted(texts(here)) == FILES
    assert done.output.splitlines() == [
        *(f"wrote {file}" for file in FILES),
        *("next:", "  tidegate check", "  tidegate test orders", "  pytest tests/test_orders.py"),
    ]
    checked = CliRunner().invoke(app, ["check"])
    assert (checked.exit_code, checked.output) == (0, "1 fine, 0 errors, 0 warnings\n")


def test_a_second_one_goes_beside_it_and_the_same_is_refused(here: Path) -> None:
    init("orders")
    before = texts(here)
    (here / "spark_jobs/my_prices_transform.py").symlink_to("nowhere")

    refused = [init("orders"), init("my-prices")]
    (here / "spark_jobs/my_prices_transform.py").unlink()

    assert [done.exit_code for done in refused] == [2, 2]
    assert f"nothing was written, for {', '.join(FILES)} would be overwritten: " in refused[0].output
    assert "for spark_jobs/my_prices_transform.py would be" in refused[1].output
    assert texts(here) == before
    assert init("my-prices", "--topic", "1").exit_code == 0
    assert "2 fine, 0 errors" in CliRunner().invoke(app, ["check"]).output


@pytest.mark.parametrize("name", ["Orders", "a/b", "../up", "1st", ""])
def test_a_name_that_is_none_is_refused(here: Path, name: str) -> None:
    done = init(name)
    assert (done.exit_code, texts(here)) == (2, {})
    assert done.output.startswith(f"tidegate: {name!r} can't be a subscription's name")


def test_a_name_that_no_file_can_have_is_refused(here: Path) -> None:
    done = init("a" * 300, "--topic", "orders")
    assert (done.exit_code, texts(here)) == (2, {})
    assert "a small letter, then a-z 0-9 _ -, at most 200 characters" in " ".join(done.output.split())
    assert init("a" * 200).exit_code == 0


def test_a_topic_that_is_none_is_refused(here: Path) -> None:
    done = init("orders", "--topic", 'a"]')
    assert (done.exit_code, texts(here)) == (2, {})


def test_nothing_stays_where_not_everything_can_be_written(here: Path) -> None:
    (here / "tests").touch()
    (here / "include").mkdir()
    done = init("orders")
    assert (done.exit_code, texts(here)) == (2, {"tests": ""})
    assert sorted(each.name for each in here.rglob("*")) == ["include", "tests"]
    assert "tests/orders.cases.yaml can't be written (Not a directory)" in done.output


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only_is_named(here: Path) -> None:
    here.chmod(0o500)
    done = init("orders")
    assert done.exit_code == 2
    assert "include can't be written (Permission denied)" in done.output


def test_in_an_airflow_it_goes_where_that_looks_with_the_pages_dag_files(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    dags = tmp_path / "elsewhere"
    dags.mkdir()
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow/airflow.cfg").write_text(f"[core]\ndags_folder = {dags}\nfernet_key = %\n")

    done = init("orders")

    assert done.exit_code == 0, done.output
    assert (sorted(texts(tmp_path / "airflow/tidegate")), texts(here)) == (FILES, {})
    page = {block.file: block.text.partition("\n")[2] for block in blocks("python") if block.page.name == "install.md"}
    assert texts(dags) == {file: page[file] for file in DAGS}
    assert "export" not in done.output
    assert CliRunner().invoke(app, ["check"]).output.startswith("1 fine")
    (dags / DAGS[0]).unlink()
    (dags / DAGS[1]).rename(dags / "mine.py")
    assert init("prices").exit_code == 0
    assert sorted(texts(dags)) == ["mine.py", DAGS[0]]


@pytest.mark.parametrize("variable", ["AIRFLOW_HOME", None])
def test_an_airflow_that_has_no_dags_folder_yet_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    home = tmp_path / "airflow"
    if variable:
        monkeypatch.setenv(variable, str(home))
    else:
        home.mkdir()

    done = init("orders")

    assert done.exit_code == 0, done.output
    assert sorted(texts(home / "dags")) == DAGS
    assert [line for line in done.output.splitlines() if "dags/" in line] == [
        f"wrote {home}/dags/{each}" for each in reversed(DAGS)
    ]


def test_a_folder_that_is_named_is_made_and_the_commands_are_told_of_it(here: Path) -> None:
    done = init("orders", "--folder", "a b", "--dags", "dags")

    assert done.exit_code == 0, done.output
    assert sorted(texts(here)) == [*(f"a b/{file}" for file in FILES), *(f"dags/{file}" for file in DAGS)]
    (told,) = [line for line in done.output.splitlines() if "export" in line]
    assert shlex.split(told) == ["export", f"TIDEGATE_HOME={here}/a b"]


def test_what_is_set_decides(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", "definitions")
    done = init("orders")
    assert (done.exit_code, texts(here)) == (0, {})
    assert (tmp_path / "definitions/orders.yaml").is_file()
