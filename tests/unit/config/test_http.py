"""Definitions of delivery over HTTP: what they come to, and what is refused with which words."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.config.http_values import RESERVED
from tidegate.config.reading import read
from tidegate.model.subscription import HttpEndpoint

LEAST: dict[str, Any] = {"kind": "http", "uri": "https://hooks.test/a?b=c", "output": "lake/hook"}


def reading(folder: Path, processing: dict[str, Any], consumer: dict[str, Any] | None = None, **top: Any) -> Any:
    file = folder / "orders.yaml"
    document = {
        "topics": ["orders"],
        "consumer": {"group.id": "g", **(consumer or {})},
        "processing": processing,
        **top,
    }
    file.write_text(yaml.safe_dump(document))
    return read(file)


def test_the_least_definition_has_the_references_defaults_but_for_the_pause(tmp_path: Path) -> None:
    found = reading(tmp_path, LEAST)
    assert found.problems == ()
    assert found.subscription.processing.endpoint == HttpEndpoint("https://hooks.test/a?b=c")
    endpoint = found.subscription.processing.endpoint
    assert (endpoint.method, endpoint.concurrency, endpoint.attempts, endpoint.parameter) == ("POST", 1, 0, "message")
    assert endpoint.connection is None
    assert endpoint.place == "https://hooks.test"


def test_every_property_reaches_the_endpoint(tmp_path: Path) -> None:
    given = {
        "method": "PUT",
        "headers": {"X-Team": " harbour "},
        "body": '{"text": {{ value }}}',
        "query-param-key": "record",
        "charset": "UTF-16",
        "concurrency-factor": 500,
        "retry-before-commit": 10,
        "delay-on-error.ms": 5,
        "request-timeout.ms": 6,
        "connect-timeout.ms": 7,
        "connection": "hook",
    }
    found = reading(tmp_path, {**LEAST, **given}, {"value.deserializer": "string"})
    assert found.problems == ()
    assert found.subscription.processing.endpoint == HttpEndpoint(
        uri="https://hooks.test/a?b=c",
        method="PUT",
        headers={"X-Team": "harbour"},
        body='{"text": {{ value }}}',
        parameter="record",
        charset="UTF-16",
        encoding="UTF-8",
        concurrency=500,
        retry_before_commit=10,
        delay_ms=5,
        request_timeout_ms=6,
        connect_timeout_ms=7,
        connection="hook",
    )
    assert found.subscription.processing.endpoint.attempts == 11


def test_a_request_that_waits_is_not_too_old_unless_an_age_is_given(tmp_path: Path) -> None:
    throttled = {"commit-strategy": "throttled"}
    assert reading(tmp_path, LEAST, **throttled).subscription.unprocessed_record_max_age_ms == 0
    age = {"throttled.unprocessed-record-max-age.ms": 5_000}
    assert reading(tmp_path, LEAST, **throttled, **age).subscription.unprocessed_record_max_age_ms == 5_000
    assert reading(tmp_path, {"output": "a"}, **throttled).subscription.unprocessed_record_max_age_ms == 60_000


def test_with_spark_there_is_no_endpoint(tmp_path: Path) -> None:
    found = reading(tmp_path, {"output": "lake/a"})
    assert (found.subscription.processing.kind, found.subscription.processing.endpoint) == ("spark", None)


@pytest.mark.parametrize(
    ("processing", "said"),
    [
        ({"uri": None}, "processing.uri is missing: processing.kind http needs it"),
        ({"uri": "https://hooks.test:99999/"}, "processing.uri must have a port from 0 to 65535"),
        ({"uri": "ftp://hooks.test"}, "processing.uri must be a URI that begins with http:// or https://"),
        (
            {"uri": "https://ann:secret@hooks.test"},
            "processing.uri must not hold a password: put it into the connection",
        ),
        ({"uri": "https://ann@hooks.test"}, "processing.uri must be a URI that begins with http://"),
        ({"uri": "https://hooks.test/a b"}, "processing.uri must be a URI"),
        ({"transform": "orders:placed"}, "processing.transform belongs to processing.kind spark, and kind is http"),
        ({"job": "jobs/own.py"}, "processing.job belongs to processing.kind spark"),
        ({"partition-by": ["a"]}, "processing.partition-by belongs to processing.kind spark"),
        ({"output": "hdfs://name:8020/lake"}, "processing.output of kind http must be a folder of this machine"),
        ({"headers": {"X Team": "a"}}, "processing.headers has 'X Team', which is no name of a header"),
        ({"headers": {"X-A": "a\r\nX-B: c"}}, "processing.headers has X-A, whose value has characters"),
        ({"headers": {"X-A": "a\0"}}, "processing.headers has X-A, whose value has characters"),
        ({"headers": {"X-A": 7}}, "processing.headers has X-A, whose value must be a text: put it in quotes"),
        ({"headers": {"X-A": "a", "x-a": "b"}}, "processing.headers has a header twice"),
        ({"headers": {"authorization": "Basic x"}}, "processing.headers has authorization, which is a secret"),
        ({"headers": ["X-A: b"]}, "processing.headers must be a mapping of headers to texts"),
        ({"body": "{{ value"}, "processing.body must be a template in MiniJinja's language: syntax error"),
        ({"body": " "}, "processing.body must be a template"),
        ({"method": "HEAD"}, "processing.method must be POST, GET, PUT, PATCH or DELETE"),
        ({"kind": "https"}, "processing.kind must be spark or http"),
    ],
)
def test_what_cannot_be_sent_is_refused(tmp_path: Path, processing: dict[str, Any], said: str) -> None:
    found = reading(tmp_path, {**LEAST, **processing})
    (problem,) = [each for each in found.problems if each.severity == "error"]
    assert problem.message.startswith(said)
    assert "secret@" not in problem.message
    assert found.subscription is None


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_no_definition_can_say_what_a_record_is(tmp_path: Path, name: str) -> None:
    (problem,) = reading(tmp_path, {**LEAST, "headers": {name.title(): "x"}}).problems
    assert problem.message.startswith(f"processing.headers has {name.title()}, which Tidegate sets for each request")


@pytest.mark.parametrize("name", ["uri", "method", "headers", "body", "concurrency-factor", "retry-before-commit"])
def test_what_is_for_http_is_refused_with_spark(tmp_path: Path, name: str) -> None:
    values = {"uri": "https://h/", "method": "GET", "headers": {}, "body": "x"}
    (problem,) = reading(tmp_path, {"output": "lake/a", name: values.get(name, 3)}).problems
    assert problem.message.startswith(
        f"processing.{name} belongs to processing.kind http, and kind is spark: remove it"
    )


@pytest.mark.parametrize(
    ("consumer", "top", "said"),
    [
        ({"value.deserializer": "avro"}, {}, "consumer.value.deserializer avro is for processing.kind spark"),
        ({"key.deserializer": "string"}, {}, "consumer.key.deserializer string is for processing.kind spark"),
        ({}, {"landing-engine": "spark"}, "landing-engine spark lands over the connection to Spark"),
    ],
)
def test_what_needs_spark_is_refused(tmp_path: Path, consumer: dict[str, Any], top: dict[str, Any], said: str) -> None:
    (problem,) = reading(tmp_path, LEAST, consumer, **top).problems
    assert problem.message.startswith(said)


@pytest.mark.parametrize("name", ["X-Api-Key", "Ocp-Apim-Subscription-Key", "X-Hub-Signature", "x-auth"])
def test_a_header_that_looks_like_a_secret_is_warned_of_and_not_quoted(tmp_path: Path, name: str) -> None:
    found = reading(tmp_path, {**LEAST, "headers": {"X-Team": "harbour", name: "sesame", "X-Author": "ann"}})
    (problem,) = found.problems
    assert (problem.severity, problem.property, problem.value) == ("warning", "processing.headers", None)
    assert problem.message == (
        f"processing.headers has {name}, which looks like a secret that whoever sees the definition can read: "
        "put it into the extra headers of the connection that processing.connection names"
    )
    assert found.subscription is not None
