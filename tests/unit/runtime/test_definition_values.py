"""What a definition comes to, and where each value is from."""

from pathlib import Path

import pytest

from tidegate.config.reading import read
from tidegate.runtime.definition_values import definition_values

TEXT = """\
topics: [flights, orders]
consumer: {group.id: flights-lake, fetch.min.bytes: 10}
max-retries: 3
processing:
  output: hdfs://lake/flights
"""


def test_each_value_has_its_place_or_is_a_default(tmp_path: Path) -> None:
    file = tmp_path / "flights.yaml"
    file.write_text(TEXT)
    (tmp_path / "_defaults.yaml").write_text("airflow:\n  owner: the-data-team\n")
    found = {each.name: each for each in definition_values(read(file))}
    assert (found["topics"].value, found["topics"].origin) == ("flights, orders", f"{file}:1")
    assert (found["consumer.fetch.min.bytes"].value, found["consumer.fetch.min.bytes"].origin) == ("10", f"{file}:2")
    assert (found["max-retries"].value, found["max-retries"].origin) == ("3", f"{file}:3")
    assert (found["airflow.owner"].value, found["airflow.owner"].origin) == (
        "the-data-team",
        f"{tmp_path}/_defaults.yaml:2",
    )
    assert (found["commit-strategy"].value, found["commit-strategy"].is_default) == ("after-processing", True)
    assert (found["consumer.auto.offset.reset"].value, found["consumer.auto.offset.reset"].is_default) == (
        "latest",
        True,
    )
    assert found["commit-strategy"].text


def test_no_secret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "flights.yaml"
    file.write_text(TEXT + "description: as postgresql://me:sesame@host/db has them\n")
    shown = {each.name: each.value for each in definition_values(read(file))}
    assert "sesame" not in shown["description"]
    assert "postgresql://" in shown["description"]


HTTP = """\
topics: [flights]
consumer: {group.id: flights-hook}
processing:
  kind: http
  output: data/flights
"""


@pytest.mark.parametrize(
    "name",
    [
        "X-Api-Key",
        "Api-Key",
        "Ocp-Apim-Subscription-Key",
        "X-Auth",
        "X-Hub-Signature",
        "X-Session-Id",
        "X-Access-Token",
    ],
)
def test_headers_that_look_like_a_credential_are_hidden(tmp_path: Path, name: str) -> None:
    file = tmp_path / "hook.yaml"
    file.write_text(
        f"{HTTP}  uri: https://hooks.test/in\n  headers: {{{name}: sesame, X-Team: harbour, X-Author: ann}}\n"
    )
    shown = {each.name: each.value for each in definition_values(read(file))}
    assert shown["processing.headers"] == f"{name}: (hidden), X-Team: harbour, X-Author: ann"


@pytest.mark.parametrize("name", ["code", "api_key", "apikey", "sig", "access_token", "subscription-key", "jwt", "sid"])
def test_parameters_of_a_uri_that_look_like_a_credential_are_hidden(tmp_path: Path, name: str) -> None:
    file = tmp_path / "hook.yaml"
    file.write_text(f"{HTTP}  uri: https://hooks.test/in?page=2&{name}=sesame&zip-code=1&keep=3\n")
    shown = {each.name: each.value for each in definition_values(read(file))}
    assert shown["processing.uri"] == f"https://hooks.test/in?page=2&{name}=***&zip-code=1&keep=3"


def test_a_wrong_value_is_shown_as_the_file_has_it_and_never_as_its_default(tmp_path: Path) -> None:
    file = tmp_path / "flights.yaml"
    wrong = "auto.offset.reset: erliest, max.poll.records: 0, client.id: {a: b}"
    file.write_text(TEXT.replace("fetch.min.bytes: 10", wrong))
    found = {each.name: (each.value, each.place) for each in definition_values(read(file))}
    assert found["consumer.auto.offset.reset"] == ("erliest", "flights.yaml:2")
    assert found["consumer.max.poll.records"] == ("0", "flights.yaml:2")
    assert found["consumer.client.id"] == ("a mapping", "flights.yaml:2")
    assert found["consumer.group.id"] == ("flights-lake", "flights.yaml:2")


def test_a_definition_that_cant_be_made_has_no_values(tmp_path: Path) -> None:
    file = tmp_path / "flights.yaml"
    file.write_text("topics: [flights]\n")
    assert list(definition_values(read(file))) == []
