"""Definitions by name: files, and those that were stored, of which a file counts."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from definition_files import LEAST
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate.model.errors import UnavailableError
from tidegate.ports import DefinedGroup
from tidegate.runtime.definitions import STORED, AllDefinitions

TEXT = "topics: [{name}]\nschedule: {schedule}\nconsumer: {{group.id: {group}}}\nprocessing: {{output: data/{name}}}\n"


def text(name: str, group: str | None = None, schedule: str = '"@daily"') -> str:
    return TEXT.format(name=name, group=group or f"{name}-lake", schedule=schedule)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "subscriptions").mkdir()
    return Settings(
        tmp_path,
        tmp_path / "subscriptions",
        ledger=f"sqlite:///{tmp_path}/ledger.db",
        landing=f"file://{tmp_path}/landing",
        logs=tmp_path / "logs",
    )


@pytest.fixture
def definitions(settings: Settings) -> AllDefinitions:
    """`flights` is a file, `orders` is stored."""
    (settings.subscriptions / "flights.yaml").write_text(text("flights"))
    found = AllDefinitions(settings)
    found.store.add("orders", text("orders"), {}, "ann")
    return found


def test_files_and_stored_ones_are_found_by_their_names(definitions: AllDefinitions, settings: Settings) -> None:
    assert definitions.names() == ["flights", "orders"]
    assert definitions.load("flights").consumer.group_id == "flights-lake"
    orders = definitions.load("orders", {"members": 3})
    assert (orders.name, orders.consumer.group_id, orders.members) == ("orders", "orders-lake", 3)
    assert definitions.path(orders) == STORED / "orders.yaml"
    assert definitions.path(definitions.load("flights")) == settings.subscriptions / "flights.yaml"


@pytest.mark.parametrize("name", ["flight", "order"])
def test_a_name_that_nobody_has_is_answered_with_the_nearest(definitions: AllDefinitions, name: str) -> None:
    with pytest.raises(DefinitionError, match=f"no subscription '{name}' in .*; did you mean {name}s\\?"):
        definitions.load(name)


def test_a_path_is_no_name(definitions: AllDefinitions) -> None:
    with pytest.raises(DefinitionError, match=r"no subscription '\.\./subscriptions/flights'"):
        definitions.load("../subscriptions/flights")


def test_a_file_counts_where_both_have_a_name(definitions: AllDefinitions, settings: Settings) -> None:
    (settings.subscriptions / "orders.yaml").write_text(text("orders", group="of-the-file"))
    assert definitions.names() == ["flights", "orders"]
    assert definitions.load("orders").consumer.group_id == "of-the-file"
    assert definitions.group_of("orders") == DefinedGroup("of-the-file")


@pytest.mark.parametrize("content", [text("orders"), text("orders", group="of-the-file"), "["])
def test_a_definition_that_a_file_overrides_is_told_once_and_counts_against_nobody(
    definitions: AllDefinitions, settings: Settings, content: str
) -> None:
    file = settings.subscriptions / "orders.yaml"
    file.write_text(content)
    if "orders-lake" not in content:
        (settings.subscriptions / "parcels.yaml").write_text(text("parcels", group="orders-lake"))
    said = (
        f"the file {file} has this name, and a file counts: no DAG runs this definition; remove it by DELETE "
        "/tidegate/subscriptions/orders"
    )
    for report in (definitions.report(), definitions.at_hand()):
        told = {each.file: each.message for each in report.errors if each.file != str(file)}
        assert told == {str(STORED / "orders.yaml"): said}
        assert [reading.file for reading, _ in report.usable if reading.file.stem == "orders"] == (
            [] if content == "[" else [file]
        )
    assert definitions.refused() == {}


def test_check_tells_of_an_overridden_definition_once(
    definitions: AllDefinitions, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "subscriptions", "ledger"):
        monkeypatch.setenv(f"TIDEGATE_{name.upper()}", str(getattr(settings, name)))
    (settings.subscriptions / "orders.yaml").write_text(text("orders"))
    done = CliRunner().invoke(app, ["check", "--json"])
    assert [each["file"] for each in json.loads(done.stdout)] == [str(STORED / "orders.yaml")]
    assert done.exit_code == 1
    assert CliRunner().invoke(app, ["check", "orders"]).exit_code == 0
    definitions.store.drain("orders", "ann")
    definitions.store.remove("orders", "ann")
    assert CliRunner().invoke(app, ["check"]).exit_code == 0


def test_a_group_is_told_of_each(definitions: AllDefinitions, settings: Settings) -> None:
    (settings.subscriptions / "broken.yaml").write_text("[")
    assert definitions.group_of("flights") == DefinedGroup("flights-lake")
    assert definitions.group_of("orders") == DefinedGroup("orders-lake")
    assert definitions.group_of("broken") == DefinedGroup(None)
    assert definitions.group_of("nobody") is None


def test_one_that_drains_has_no_schedule_any_more(definitions: AllDefinitions) -> None:
    assert (definitions.load("orders").schedule, definitions.is_draining("orders")) == ("@daily", False)
    definitions.store.drain("orders", "ann")
    assert (definitions.load("orders").schedule, definitions.is_draining("orders")) == (None, True)
    assert not definitions.is_draining("flights")
    assert not definitions.is_draining("nobody")


def test_check_warns_of_one_that_drains(definitions: AllDefinitions) -> None:
    definitions.store.drain("orders", "ann")
    (told,) = definitions.report().problems
    assert (told.file, told.severity) == (str(STORED / "orders.yaml"), "warning")
    assert told.message == (
        "it was unsubscribed and is draining: no new batch begins; `tidegate status orders` says what ends it"
    )


def test_what_would_be_stored_is_checked_beside_all_others(definitions: AllDefinitions) -> None:
    assert definitions.examined("parcels", text("parcels")).name == "parcels"
    assert definitions.examined("orders", text("orders", group="another")).consumer.group_id == "another"
    with pytest.raises(DefinitionError, match=r"consumer\.group\.id is also that of"):
        definitions.examined("parcels", text("parcels", group="flights-lake"))
    with pytest.raises(DefinitionError) as wrong:
        definitions.examined("parcels", '{"topics": ["a"], "memberz": 1}')
    assert {each.property for each in wrong.value.problems} >= {"memberz", "consumer.group.id"}
    with pytest.raises(DefinitionError, match="the file's name must be"):
        definitions.examined("Parcels", text("parcels"))


def test_nothing_is_made_by_asking(settings: Settings) -> None:
    definitions = AllDefinitions(settings)
    assert definitions.names() == []
    assert definitions.group_of("orders") is None
    with pytest.raises(DefinitionError):
        definitions.load("orders")
    assert list(settings.home.iterdir()) == [settings.subscriptions]


@pytest.mark.usefixtures("definitions")
def test_files_are_found_while_the_ledger_is_away(settings: Settings) -> None:
    away = AllDefinitions(replace(settings, ledger="postgresql://nobody:nothing@127.0.0.1:1/none"))
    assert away.load("flights").name == "flights"
    assert away.names_at_hand() == ["flights"]
    with pytest.raises(UnavailableError):
        away.names()
    with pytest.raises(UnavailableError):
        away.load("orders")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("data/landing", "the landing"),
        ("data/landing/flights", "the landing"),
        ("include", "the definitions"),
        ("include/../include/subscriptions/lake", "the definitions"),
        ("spark_jobs/transforms", "Spark's jobs and transforms"),
        ("data", "the landing"),
        ("data/logs", "the jobs' logs"),
        ("data/ledger.db", "the ledger"),
    ],
)
def test_the_installations_own_places_are_no_output_of_a_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, said: str
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    file = tmp_path / "include/subscriptions/flights.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(LEAST.replace("output: out", f"output: {output}"))
    definitions = AllDefinitions(Settings.from_environment(os.environ))
    text = f"processing.output is, lies in or holds {said}"
    with pytest.raises(DefinitionError, match=text):
        definitions.load_to_run("flights")
    assert text in " ".join(CliRunner().invoke(app, ["check", str(file)]).output.split())
    assert list(definitions.refused()) == ["flights"]


def test_an_installation_in_the_folder_of_its_definitions_has_its_outputs_there(tmp_path: Path) -> None:
    environ = {"TIDEGATE_HOME": str(tmp_path), "TIDEGATE_SUBSCRIPTIONS": str(tmp_path)}
    (tmp_path / "flights.yaml").write_text(LEAST)
    assert AllDefinitions(Settings.from_environment(environ)).load_to_run("flights").name == "flights"


def test_what_would_write_into_another_ones_output_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody points a new definition at the folder of another, or at one with a table in it."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    folder = tmp_path / "include/subscriptions"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path)
    for name, output in {"flights": "lake", "shop": "link/lake", "gates": "table", "plain": "plain"}.items():
        text = LEAST.replace("group.id: g", f"group.id: {name}").replace("output: out", f"output: {output}")
        (folder / f"{name}.yaml").write_text(text)
    (tmp_path / "table/_delta_log").mkdir(parents=True)
    definitions = AllDefinitions(Settings.from_environment(os.environ))
    assert definitions.load_to_run("plain").name == "plain"
    for name, text in {"shop": "is also that of", "flights": "is also that of", "gates": "has a Delta table"}.items():
        with pytest.raises(DefinitionError, match=text):
            definitions.load_to_run(name)
        for command in ("run", "plan"):
            refused = CliRunner().invoke(app, [command, name])
            assert text in " ".join(refused.output.split()), command
            assert refused.exit_code != 0
    assert {each.name for each in tmp_path.iterdir()} == {"include", "link", "table"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("transform: mine:nofunc", "has no function nofunc; did you mean func?"),
        ("transform: nomodule:func", "there is no module nomodule in"),
        ("job: nowhere.py", "there is no file"),
    ],
)
def test_what_names_a_transform_or_a_job_that_is_not_there_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    file, module = tmp_path / "include/subscriptions/flights.yaml", tmp_path / "spark_jobs/mine.py"
    for each in (file, module):
        each.parent.mkdir(parents=True)
    file.write_text(LEAST.replace("output: out", f"output: out, {written}"))
    module.write_text("def func(records):\n    raise SystemExit\n")
    for command in ("run", "plan"):
        refused = CliRunner().invoke(app, [command, "flights", "--json"])
        error = json.loads(refused.stdout)["error"]
        assert (refused.exit_code, error.startswith(f"{file}:3: error: "), said in error) == (2, True, True), command
    assert {each.name for each in tmp_path.iterdir()} == {"include", "spark_jobs"}
