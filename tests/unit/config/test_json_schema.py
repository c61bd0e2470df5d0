"""The JSON Schema of a definition: shipped as generated, and never stricter than the loader."""

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from definition_files import FLIGHTS, LEAST
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import tidegate
from tidegate.cli.app import app
from tidegate.config.findings import Findings
from tidegate.config.foreign_properties import ELSEWHERE
from tidegate.config.json_schema import DIALECT, definition_schema, schema_text
from tidegate.config.property_table import ALIASES, PROPERTIES
from tidegate.config.property_types import PropertyType
from tidegate.config.reading import Reading, read
from tidegate.config.yaml_graph import Graph
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.failure_policy import FailureStrategy

SHIPPED = Path(tidegate.__file__).with_name("subscription.schema.json")
VALIDATOR = Draft202012Validator(definition_schema())
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def refusals(path: Path) -> list[str]:
    """What the schema says of a file's values."""
    graph = Graph(Findings(str(path)))
    root = graph.compose(path)
    return [error.message for error in VALIDATOR.iter_errors(None if root is None else graph.value(root))]


def test_the_shipped_file_is_current():
    assert SHIPPED.read_text("utf-8") == schema_text(), "run make docs"


def test_it_is_a_schema_of_the_newest_dialect():
    document = json.loads(schema_text())
    assert document["$schema"] == DIALECT
    Draft202012Validator.check_schema(document)


def test_the_command_line_prints_it():
    assert CliRunner().invoke(app, ["schema"]).output == schema_text()


def test_the_shipped_definition_names_it_and_is_taken():
    (line,) = [line for line in FLIGHTS.read_text("utf-8").splitlines() if "yaml-language-server" in line]
    assert (FLIGHTS.parent / line.partition("$schema=")[2]).resolve() == SHIPPED.resolve()
    assert refusals(FLIGHTS) == []


def test_it_has_every_property_with_its_default_and_a_description():
    for section, known in PROPERTIES.items():
        document = definition_schema()
        named = document["properties"][section]["properties"] if section else document["properties"]
        for name, key in known.items():
            assert named[name]["description"]
            assert named[name].get("default") == (list(key.default) if key.default == () else key.default)
    assert set(ALIASES) < set(definition_schema()["properties"])


def test_a_type_without_a_schema_is_noticed():
    class Colour(PropertyType):
        def validate(self, _value: object) -> str | None:
            return None

    with pytest.raises(TypeError, match=r"abstract method.*allowed"):
        Colour()


WRONG = [
    "foo: 1",
    "members: 0",
    "members: 1025",
    "members: '2'",
    "poll-timeout.ms: 1m",
    "description: 5",
    "schedule: 5",
    "schedule: '@dayly'",
    "schedule: {}",
    "schedule: {records: 0}",
    "schedule: {records: 5, or-after: 5000}",
    "schedule: {or-after.ms: null}",
    "connection: 'a b'",
    "connection: broker:9092",
    "connection: localhost:8081/api",
    "connection: 'spark://host:7077'",
    "connection: ''",
    "on-data-loss: skip",
    "commit-strategy: sometimes",
    "failure-strategy: dead-letters",
    "landing-engine: rust",
    "dead-letter-queue: {topic: dead}",
    "dead-letter-queue.topic: a/b",
    "dead-letter-queue.limit: -1",
    "dead-letter-queue.limit: 1.5",
    "dead-letter-queue.limit: 100.1%",
    "delayed-retry-topic.topics: []",
    "delayed-retry-topic.topics: [a_1s]",
    "delayed-retry-topic.max-retries: 0",
    "delayed-retry-topic.timeout: 0",
    "auto.commit.interval.ms: -1",
    "throttled.unprocessed-record-max-age.ms: -2",
    "checkpoint.unsynced-state-max-age.ms: 10s",
    "fail-on-deserialization-failure: 'no'",
    "pattern: flights",
    "partitions: {flights: [0]}",
    "consumer.group.id: g",
    "poll-timeout.ms: 50000\nurecp-kafka.poll-timeout.ms: 50000",
    "assign-seek: abcd",
    "assign-seek: 0:1:2:3",
    "assign-seek: -1",
    "assign-seek: 0.5",
    "pattern: a\nassign-seek: a:0",
    "partitions: {a: [0]}\nassign-seek: a:1",
    "cursor: {type: at_time}",
    "cursor: {offset: 3}",
    "cursor: {type: AT_TIME}",
    "cursor: {type: AT_TIME, time: '2026-01-31'}",
    "cursor: {type: AT_OFFSET, offset: -1}",
    "cursor: {type: LATEST, offset: 3}",
    "deserialization: {value.schema: 5}",
    "deserialization: {value.schem: 'a INT'}",
    "airflow: {pol: lake}",
    "airflow: {priority_weight: high}",
    "airflow: {tags: ['operator: eve']}",
    "airflow: {on_failure_callback: alerts}",
    "airflow: {execution_timeout: 3600}",
    "execution-timeout.ms: 86400000\nairflow: {execution_timeout: 24h}",
    *(f"{name}: x" for name in ELSEWHERE),
]
WRONG_IN_PLACE = [
    ("topics: [flights]", "topics: []"),
    ("topics: [flights]", "topics: [a/b]"),
    ("topics: [flights]", "topics: [a, a]"),
    ("topics: [flights]", "topics: [2013]"),
    ("topics: [flights]", "topics: flights"),
    ("topics: [flights]", "partitions: {a: []}"),
    ("topics: [flights]", "partitions: {a/b: [0]}"),
    ("topics: [flights]", "partitions: {}"),
    ("topics: [flights]", "topics: null"),
    ("topics: [flights]", "pattern: ''"),
    ("topics: [flights]", "pattern: a\nassign-seek: a:0"),
    ("topics: [flights]", "partitions: {a: [0]}\nassign-seek: a:1"),
    ("topics: [flights]", "assign-seek: ' '"),
    ("group.id: g", "client.id: c"),
    ("group.id: g", "group.id: null"),
    ("group.id: g", "group.id: g, fetch.min.bytes: -1"),
    ("group.id: g", "group.id: g, enable.auto.commit: true"),
    ("group.id: g", "group.id: g, sasl.password: x"),
    ("group.id: g", "group.id: g, bootstrap.servers: x"),
    ("group.id: g", "group.id: g, max.poll.record: 1"),
    ("group.id: g", "group.id: g, value.deserializer: xml"),
    ("output: out", "connection: c"),
    ("output: out", "output: null"),
    ("output: out", "output: s3n://bucket/lake"),
    ("output: out", "output: out, format: hudi"),
    ("output: out", "output: out, format: iceberg"),
    ("output: out", "output: lake.flights, format: iceberg"),
    ("output: out", "output: out, schema-evolution: rescue"),
    ("output: out", "output: 'data/*'"),
    ("output: out", "output: out, transform: flights"),
    ("output: out", "output: out, transform: 'a:b', job: c.py"),
    ("output: out", "output: out, partition-by: [batch_id]"),
]


@pytest.mark.parametrize("text", [LEAST + line for line in WRONG])
def test_what_the_loader_refuses_line_by_line_the_schema_refuses(tmp_path, text):
    assert both_refuse(tmp_path / "flights.yaml", text)


@pytest.mark.parametrize(("old", "new"), WRONG_IN_PLACE)
def test_what_the_loader_refuses_in_place_of_a_right_value_the_schema_refuses(tmp_path, old, new):
    assert old in LEAST
    assert both_refuse(tmp_path / "flights.yaml", LEAST.replace(old, new))


def both_refuse(path: Path, text: str) -> bool:
    path.write_text(text, "utf-8")
    return bool(read(path).subscription is None and refusals(path))


RIGHT = [
    "",
    "schedule: null",
    "schedule: '*/5 * * * *'",
    "schedule: '0 0 1 1 *'",
    "schedule: {records: 10000, or-after.ms: 60000}",
    "schedule: {records: 10000}",
    "schedule: {records: null, or-after.ms: 1000}",
    "description: |\n  two\n  lines",
    "pattern: null",
    "cursor: {}",
    "cursor:",
    "deserialization:",
    "cursor: {type: LATEST, offset: null}",
    "cursor: {type: AT_TIME, time: 2026-01-31T01:00:00+01:00}",
    "cursor: {type: AT_TIME, time: '2026-01-31 00:00:00Z'}",
    "cursor: {type: AFTER_OFFSET, offset: 41}",
    "urecp-kafka.poll-timeout.ms: 50000",
    "execution-timeout.ms: 86400000",
    "airflow:",
    "airflow: {execution_timeout: 24h, tags: [], pool: lake, executor: my-alias}",
    "execution-timeout.ms: 86400000\nairflow: {execution_timeout: null}",
    "execution-timeout.ms: null\nairflow: {execution_timeout: 24h}",
    "assign-seek: ' '",
    "assign-seek: 0",
    "assign-seek: 0:5,1:-1, flights:2",
    "assign-seek: >\n  flights:0:0,\n  flights:1",
    "connection: some-team/käfka",
    "connection: 'team:kafka'",
    "connection: \U0001d4a6afka-\U0001030a",
    "failure-strategy: dead-letter-queue\ndead-letter-queue.topic: dead\ndead-letter-queue.limit: 0",
    "failure-strategy: dead-letter-queue\ndead-letter-queue.limit: 0.5%",
    "failure-strategy: delayed-retry-topic\ndelayed-retry-topic.topics: [a_1000, b_02000]",
    "commit-strategy: throttled\nthrottled.unprocessed-record-max-age.ms: -1",
    *(f"commit-strategy: {word}" for word in get_args(CommitStrategy)),
    *(f"failure-strategy: {word}" for word in get_args(FailureStrategy)),
]


@pytest.mark.parametrize("line", RIGHT)
def test_what_the_loader_takes_the_schema_takes(reading: Callable[[str], Reading], line: str):
    taken = reading(LEAST + line)
    assert taken.subscription is not None, taken.problems
    assert refusals(taken.file) == []


OPTIONAL = [
    (section, name)
    for section, keys in PROPERTIES.items()
    for name in keys
    if (section, name) not in {("", "topics"), ("consumer", "group.id"), ("processing", "output")}
]


@pytest.mark.parametrize(("section", "name"), OPTIONAL)
def test_an_empty_value_is_the_same_as_leaving_the_property_out(
    reading: Callable[[str], Reading], section: str, name: str
):
    left_out = reading(LEAST)
    empty = reading(least_with(section, name, None))
    assert empty.subscription is not None, empty.problems
    assert empty.subscription == left_out.subscription
    assert refusals(empty.file) == []


@pytest.mark.parametrize("empty", [[], {}, ""], ids=str)
def test_what_is_empty_for_the_loader_is_so_for_the_schema(reading: Callable[[str], Reading], empty: object):
    for section, name in OPTIONAL:
        taken = reading(least_with(section, name, empty))
        assert taken.subscription is None or refusals(taken.file) == [], name


def least_with(section: str, name: str, value: object) -> str:
    """The least definition, and one property more."""
    least: dict[str, Any] = yaml.safe_load(LEAST)
    given = least.setdefault(section, {}) if section else least
    given[name] = value
    return yaml.safe_dump(least)


def patterns(schema: object) -> Iterator[str]:
    """Every regular expression in a schema."""
    if isinstance(schema, dict):
        yield from (each for name, each in schema.items() if name == "pattern" and isinstance(each, str))
        yield from (found for each in schema.values() for found in patterns(each))
    elif isinstance(schema, list):
        yield from (found for each in schema for found in patterns(each))


def test_no_pattern_has_a_class_that_dialects_disagree_on():
    found = list(patterns(definition_schema()))
    assert found
    assert [each for each in found if re.search(r"\\[wWdDsSbBuUpP]", each)] == []


@FUZZ
@given(name=st.text(st.characters(categories=["L", "N", "M", "P", "S"]), min_size=1, max_size=4))
def test_whatever_letters_the_id_of_a_connection_has_the_schema_takes_them(name):
    kind = PROPERTIES[""]["connection"].type
    if kind.validate(name) is None:
        Draft202012Validator(kind.allowed().schema).validate(name)


@pytest.mark.parametrize(
    "place", ["/lake", "file:/lake", "FILE:///lake", "hdfs://name:8020/lake", "~/lake", "a b", "S3://c@b/x"]
)
def test_every_output_that_is_taken(reading, place):
    taken = reading(LEAST.replace("output: out", f"output: '{place}'"))
    assert taken.subscription is not None
    assert refusals(taken.file) == []


def values(section: str) -> st.SearchStrategy[dict[str, Any]]:
    """Properties of a section, their values sometimes right."""
    names = list(PROPERTIES[section]) + ([*ALIASES, *PROPERTIES] if not section else [])
    examples = st.sampled_from(
        [
            *(True, False, None, 0, 1, 2, 500, 60_000, 10**12, -1, 1.5, "", "a", "a:b", "3", "é", "fail", "none"),
            *("@daily", "0 * * * *", "* * * * * *", "earliest", "read_committed", "strict", "LATEST", "AT_TIME"),
            *(
                "a:0:5",
                "0,1",
                "0:-1",
                " ",
                "2026-01-31T00:00:00Z",
                "20260131T000000Z",
                "string",
                "json",
                "utf8",
                "latin1",
                "a INT",
                "range",
            ),
            *([], ["a"], ["a", "b"], ["a", "A"], [1], {}, {"a": [0]}, {"type": "object"}, "file:///x", "x\ny"),
        ]
    )
    return st.dictionaries(st.sampled_from(names), examples, max_size=5)


@pytest.mark.long
@FUZZ
@given(top=values(""), consumer=values("consumer"), cursor=values("cursor"), processing=values("processing"))
@example(top={}, consumer={}, cursor={}, processing={"keys": []})
@example(top={}, consumer={}, cursor={}, processing={"sequence-by": [], "delete-when": None})
def test_nothing_that_the_loader_takes_is_refused(tmp_path, top, consumer, cursor, processing):
    document = {
        "topics": ["flights"],
        **top,
        "consumer": {"group.id": "g", **consumer},
        "processing": {"output": "out", **processing},
        **({"cursor": cursor} if cursor else {}),
    }
    path = tmp_path / "flights.yaml"
    stream = StringIO()
    yaml.safe_dump(document, stream, allow_unicode=True)
    path.write_text(stream.getvalue(), "utf-8")
    if read(path).subscription is not None:
        assert refusals(path) == []


@FUZZ
@given(data=st.data(), section=st.sampled_from(list(PROPERTIES)))
def test_no_value_of_any_kind_that_may_stand_is_refused(data, section):
    name = data.draw(st.sampled_from(list(PROPERTIES[section])))
    kind = PROPERTIES[section][name].type
    value = data.draw(values(section).map(lambda found: next(iter(found.values()), None)) | st.text(max_size=8))
    if kind.validate(value) is None:
        Draft202012Validator(kind.allowed().schema).validate(value)
