"""What a definition needs that isn't installed is told as its problem, with the command that installs it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.config import extras
from tidegate.config.reading import read_text

HTTP = """\
topics: [orders]
consumer: {group.id: orders-hook}
processing: {kind: http, uri: "https://example.org/hook", output: lake/orders, body: "{{ value }}"}
"""
PROTOBUF = """\
topics: [orders]
consumer: {group.id: orders-lake, value.deserializer: protobuf}
processing: {output: lake/orders}
"""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment without any extra."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    extras.missing.cache_clear()
    yield
    extras.missing.cache_clear()


def problems(text: str) -> list[str]:
    return [each.message for each in read_text(Path("orders.yaml"), text).problems if each.severity == "error"]


def test_with_the_extras_there_is_nothing_to_say() -> None:
    assert problems(HTTP) == problems(PROTOBUF) == []


@pytest.mark.usefixtures("bare")
def test_delivery_over_http_names_its_packages_and_the_command() -> None:
    (said,) = problems(HTTP)
    assert said == (
        "processing.kind http needs certifi, minijinja, pycurl, which aren't installed here: "
        "pip install 'tidegate[http]'"
    )


@pytest.mark.usefixtures("bare")
def test_a_deserializer_names_those_of_the_registry_and_its_own() -> None:
    said = problems(PROTOBUF)
    assert [each.rpartition("tidegate")[2] for each in said] == ["[registry]'", "[protobuf]'"]
    assert all(each.startswith("consumer.value.deserializer protobuf needs ") for each in said)


def test_a_module_of_a_package_that_is_not_there_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_MODULES", {"odd": ("there.is.none",)})
    assert extras.missing("odd") == "there.is.none, which isn't installed here: pip install 'tidegate[odd]'"
    extras.missing.cache_clear()


def test_asking_a_person_needs_an_airflow_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "topics: [orders]\nfailure-strategy: ask\nconsumer: {group.id: g}\nprocessing: {output: lake/orders}\n"
    extras.older_airflow.cache_clear()
    monkeypatch.setattr(extras, "version", lambda _: "3.2.1")
    assert problems(asks) == ["failure-strategy ask needs Airflow 3.3 or newer, and this is 3.2.1"]
    extras.older_airflow.cache_clear()
    monkeypatch.setattr(extras, "version", lambda _: "3.10.0rc1")
    assert problems(asks) == []
    extras.older_airflow.cache_clear()
