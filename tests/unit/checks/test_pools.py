"""Which pools Airflow has, as its command line tells it, and what is told of those that it lacks."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from definition_files import LEAST

from tidegate.checks.pools import AirflowPools, with_pool_errors
from tidegate.config.check import Report, examine
from tidegate.model.errors import UnavailableError

ANSWER = '[{"pool": "default_pool", "slots": "128"}, {"pool": "lake", "slots": "4"}]'


@pytest.fixture
def fake_airflow(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """A command that answers as `airflow pools list` does, warnings before the answer included."""

    def made(answer: str) -> tuple[str, ...]:
        program = tmp_path / "airflow.py"
        asked = "import sys\nassert sys.argv[1:] == ['pools', 'list', '-o', 'json'], sys.argv\n"
        program.write_text(f"{asked}print('a warning')\nprint({answer!r})\n")
        return (sys.executable, str(program))

    return made


@pytest.fixture
def report(tmp_path: Path) -> Callable[[str], Report]:
    """The report of a definition with this pool; none for an empty text."""

    def examined(pool: str) -> Report:
        (tmp_path / "flights.yaml").write_text(LEAST + (f"airflow:\n  pool: {pool}\n" if pool else ""))
        return examine([tmp_path], tmp_path)

    return examined


def test_the_names_are_those_of_the_list(fake_airflow: Callable[[str], tuple[str, ...]]) -> None:
    assert AirflowPools({}, fake_airflow(ANSWER))() == {"default_pool", "lake"}


@pytest.mark.parametrize("answer", ["", "No pools", '[{"name": "x"}]', "[3]"])
def test_an_answer_that_is_none_says_what_to_run(fake_airflow: Callable[[str], tuple[str, ...]], answer: str) -> None:
    with pytest.raises(UnavailableError, match=r"`airflow pools list`.*run it to see"):
        AirflowPools({}, fake_airflow(answer))()


def test_a_command_that_fails_is_no_answer() -> None:
    with pytest.raises(UnavailableError, match="`airflow pools list`"):
        AirflowPools({}, ("/bin/sh", "-c", "exit 1"))()


def test_a_pool_that_is_not_there_is_an_error_at_its_line_with_how_to_create_it(
    report: Callable[[str], Report],
) -> None:
    found = with_pool_errors(report("a lake"), lambda: {"default_pool", "lake"})
    (error,) = found.errors
    assert (Path(error.file).name, error.line, error.property, error.rule) == (
        "flights.yaml",
        5,
        "airflow.pool",
        "no-pool",
    )
    assert "Airflow has no pool a lake, and tasks wait for ever in it: create it" in error.message
    assert "`airflow pools set 'a lake' 4 ''`" in error.message
    assert found.subscriptions == ()


@pytest.mark.parametrize("pool", ["", "lake"])
def test_a_pool_that_is_there_and_none_are_fine(report: Callable[[str], Report], pool: str) -> None:
    found = with_pool_errors(report(pool), lambda: {"default_pool", "lake"})
    assert (found.problems, len(found.subscriptions)) == ((), 1)


def test_nobody_is_asked_for_no_pool_and_where_there_is_nobody_to_ask_nothing_is_told(
    report: Callable[[str], Report],
) -> None:
    def never() -> set[str]:
        raise AssertionError

    assert with_pool_errors(report(""), never).problems == ()
    assert with_pool_errors(report("lake"), lambda: None).problems == ()


def test_an_airflow_that_is_away_is_a_warning(report: Callable[[str], Report]) -> None:
    def away() -> set[str]:
        raise UnavailableError("the database is away")

    found = with_pool_errors(report("lake"), away)
    (warning,) = found.problems
    assert (warning.severity, len(found.subscriptions)) == ("warning", 1)
    assert "whether Airflow has this pool isn't known: the database is away" in warning.message


def test_a_default_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "_defaults.yaml").write_text("airflow:\n  pool: lakes\n")
    for name, more in {"a": "", "b": "", "c": "airflow: {pool: lake}\n"}.items():
        text = f"topics: [t]\nconsumer: {{group.id: {name}}}\nprocessing: {{output: {name}}}\n{more}"
        (tmp_path / f"{name}.yaml").write_text(text)
    found = with_pool_errors(examine([tmp_path], tmp_path), lambda: {"lake"})
    assert [(Path(each.file).name, each.line) for each in found.errors] == [("_defaults.yaml", 2)]
    assert [each.name for each in found.subscriptions] == ["c"]
