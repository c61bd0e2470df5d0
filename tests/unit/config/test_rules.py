"""The rules between a definition's properties."""

import json
import re
from datetime import UTC, datetime

import pytest
from definition_files import LEAST, told

from tidegate.model.subscription import (
    Cursor,
    Deserialization,
    Deserializer,
    TopicNames,
    TopicPartitions,
    TopicPattern,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("topics: [b, a]", TopicNames(("b", "a"))),
        ("pattern: 'flights[.].*'", TopicPattern("flights[.].*")),
        ("partitions: {flights: [2, 0], 2013: [1]}", TopicPartitions({"flights": (0, 2), "2013": (1,)})),
    ],
)
def test_topics_are_names_a_pattern_or_partitions(reading, line, expected):
    subscription = reading(LEAST.replace("topics: [flights]", line)).subscription
    assert subscription is not None
    assert subscription.topics == expected


@pytest.mark.parametrize(
    ("lines", "property_"),
    [("", ""), ("topics: [a]\npattern: b", "pattern"), ("pattern: a\npartitions: {a: [0]}", "partitions")],
)
def test_exactly_one_of_them_is_given(reading, lines, property_):
    found = reading(f"{lines}\nconsumer: {{group.id: g}}\nprocessing: {{output: out}}\n")
    assert told(found) == [(2 if property_ else 1, property_, "required")]


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        ("description: runs of {{ ds }}", "description"),
        ("tags: [lake, '{{ params.team }}']", "tags"),
        ("description: ${TEAM}'s", "description"),
        ("description: of $AIRFLOW_HOME", "description"),
        ("description: costs 5 $US and {a: 1}", None),
        ("dead-letter-queue.topic: d$a", None),
    ],
)
def test_what_looks_like_a_template_or_a_variable_is_taken_as_it_is_and_told(reading, lines, path):
    found = reading(f"{LEAST}{lines}\n")
    assert [each.property for each in found.problems if each.rule == "not-rendered"] == ([path] if path else [])
    assert all(each.severity == "warning" for each in found.problems if each.rule == "not-rendered")


def test_a_pattern_and_a_body_have_languages_of_their_own(reading):
    topics = LEAST.replace("topics: [flights]", "pattern: 'a{{2}}|$AB'")
    processing = "{kind: http, uri: 'https://h/x', output: out, body: '{{ value }}'}"
    found = reading(topics.replace("{output: out}", processing))
    assert "not-rendered" not in {each.rule for each in found.problems}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cursor: {type: TRIM_HORIZON}", Cursor("TRIM_HORIZON")),
        ("cursor: {type: LATEST, offset: null}", Cursor("LATEST")),
        (
            "cursor: {type: AT_TIME, time: 2026-01-31T01:00:00+01:00}",
            Cursor("AT_TIME", time=datetime(2026, 1, 31, tzinfo=UTC)),
        ),
        (
            "cursor: {type: AT_TIME, time: '2026-01-31 00:00:00Z'}",
            Cursor("AT_TIME", time=datetime(2026, 1, 31, tzinfo=UTC)),
        ),
        ("cursor: {type: AT_OFFSET, offset: 0}", Cursor("AT_OFFSET", offset=0)),
        ("cursor: {type: AFTER_OFFSET, offset: 41}", Cursor("AFTER_OFFSET", offset=41)),
    ],
)
def test_a_cursor_has_what_its_type_needs(with_lines, line, expected):
    subscription = with_lines(line).subscription
    assert subscription is not None
    assert subscription.cursor == expected


@pytest.mark.parametrize(
    ("line", "property_", "rule"),
    [
        ("cursor: {type: AT_TIME}", "cursor.time", "required"),
        ("cursor: {type: AT_OFFSET}", "cursor.offset", "required"),
        ("cursor: {offset: 3}", "cursor.type", "required"),
        ("cursor: {type: LATEST, offset: 3}", "cursor.offset", "refused"),
        ("cursor: {type: at_time}", "cursor.type", "allowed"),
        ("cursor: {type: AT_TIME, time: 2026-01-31}", "cursor.time", "allowed"),
        ("cursor: {type: AT_TIME, time: 1969-12-31T00:00:00Z}", "cursor.time", "allowed"),
        ("cursor: {type: AT_OFFSET, offset: -1}", "cursor.offset", "allowed"),
    ],
)
def test_a_wrong_cursor_is_one_problem(with_lines, line, property_, rule):
    found = with_lines(line)
    assert told(found) == [(4, property_, rule)]
    assert found.subscription is None


@pytest.mark.parametrize(
    ("consumer", "internal"), [("", False), ("true", False), ("false", True)], ids=["unsaid", "true", "false"]
)
def test_a_pattern_matches_internal_topics_only_if_they_are_not_excluded(reading, consumer, internal):
    more = f", exclude.internal.topics: {consumer}" if consumer else ""
    text = LEAST.replace("topics: [flights]", "pattern: .*").replace("group.id: g", f"group.id: g{more}")
    assert reading(text).subscription.topics == TopicPattern(".*", internal=internal)


def test_named_topics_may_be_internal_whatever_is_excluded(reading):
    text = LEAST.replace("[flights]", "[__consumer_offsets]")
    for excluded in ("true", "false"):
        found = reading(text.replace("group.id: g", f"group.id: g, exclude.internal.topics: {excluded}"))
        assert found.subscription is not None, found.problems
        assert found.subscription.topics == TopicNames(("__consumer_offsets",))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("poll-timeout.ms: 41650", [(4, "poll-timeout.ms", "R3", "warning")]),
        ("poll-timeout.ms: 41651", []),
        ("poll-timeout.ms: 299999", []),
        ("poll-timeout.ms: 300000", [(4, "poll-timeout.ms", "R1", "warning")]),
        ("commit-timeout.ms: 299999", []),
        ("commit-timeout.ms: 300000", [(4, "commit-timeout.ms", "R2", "warning")]),
        ("commit-timeout.ms: 300001", [(4, "commit-timeout.ms", "R2", "error")]),
    ],
)
def test_timeouts_around_java_s_defaults(with_lines, lines, expected):
    found = with_lines(lines).problems
    assert [(each.line, each.property, each.rule, each.severity) for each in found] == expected


EXECUTION = 2 * 60_000 + 300_000 + 15_000 + 30_000


@pytest.mark.parametrize(
    ("consumer", "rules"),
    [
        ("socket.connection.setup.timeout.max.ms: 300001", {"R1", "R3", "R4"}),
        ("socket.connection.setup.timeout.max.ms: 30000", set()),
        ("reconnect.backoff.max.ms: 300001", {"R1", "R3", "R4"}),
        ("session.timeout.ms: 8999", {"R5"}),
        ("session.timeout.ms: 9000", set()),
        ("session.timeout.ms: 300001", {"R5"}),
        ("session.timeout.ms: 300000", set()),
        ("heartbeat.interval.ms: 15001", {"R5"}),
        ("heartbeat.interval.ms: 15000", set()),
        ("connections.max.idle.ms: 300000", {"R1", "R2"}),
        ("connections.max.idle.ms: -1", set()),
    ],
)
def test_consumer_properties_are_held_to_the_rules(reading, consumer, rules):
    found = reading(LEAST.replace("group.id: g", f"group.id: g, {consumer}"))
    assert {each.rule for each in found.problems} == rules
    assert all(each.property == f"consumer.{consumer.partition(':')[0]}" for each in found.problems)
    assert (found.subscription is None) == bool(rules & {"R4", "R5"})


def test_an_execution_timeout_leaves_time_for_a_whole_run(with_lines):
    (problem,) = with_lines(f"execution-timeout.ms: {EXECUTION}").problems
    assert (problem.line, problem.property, problem.rule) == (4, "execution-timeout.ms", "R7")
    assert problem.message == (
        f"execution-timeout.ms ({EXECUTION}) must be longer than {EXECUTION}: twice poll-timeout.ms (60000), "
        "consumer.max.poll.interval.ms (300000), commit-timeout.ms (15000) and 30000 for closing"
    )
    longer = with_lines(f"execution-timeout.ms: {EXECUTION + 1}").subscription
    assert longer is not None
    assert longer.execution_timeout_ms == EXECUTION + 1
    assert with_lines("execution-timeout.ms:").subscription.execution_timeout_ms is None


def test_a_rule_says_nothing_about_a_value_that_is_wrong_by_itself(with_lines):
    found = with_lines("poll-timeout.ms: 300000\ncommit-timeout.ms: none\nexecution-timeout.ms: 5\n")
    assert told(found) == [(4, "poll-timeout.ms", "R1"), (5, "commit-timeout.ms", "allowed")]


JOB = "output: out, job: jobs/flights.py"


def test_a_job_of_one_s_own_takes_the_place_of_a_transform(reading):
    alone = reading(LEAST.replace("output: out", JOB)).subscription
    assert alone is not None
    assert (alone.processing.job, alone.processing.transform) == ("jobs/flights.py", None)
    found = reading(LEAST.replace("output: out", f"{JOB}, transform: flights:departures"))
    assert told(found) == [(3, "processing.transform", "refused")]


def test_a_job_of_one_s_own_may_have_deserializers(reading):
    text = LEAST.replace("output: out", JOB).replace("group.id: g", "group.id: g, key.deserializer: long")
    assert reading(text).subscription.deserialization == Deserialization(key=Deserializer("long"))


def decoded(consumer: str, options: str = "{}") -> str:
    """A definition with these lines under `consumer`; `{key,value}.x` is both."""
    consumer = re.sub(r"{key,value}(.*)", r"key\1\n  value\1", consumer)
    return f"""\
topics: [flights]
consumer:
  group.id: g
  {consumer}
deserialization: {options}
processing: {{output: out}}
"""


COLUMNS = "carrier STRING, flight INT"
OBJECT = {"type": "object", "properties": {"flight": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("consumer", "options", "expected"),
    [
        ("client.id: c", "{}", Deserialization()),
        ("value.deserializer: bytes", "{}", Deserialization()),
        ("key.deserializer: uuid", "{}", Deserialization(key=Deserializer("uuid"))),
        (
            "value.deserializer: org.apache.kafka.common.serialization.StringDeserializer",
            "{}",
            Deserialization(value=Deserializer("string")),
        ),
        (
            "value.deserializer: string\n  value.deserializer.encoding: latin1",
            "{}",
            Deserialization(value=Deserializer("string", "ISO-8859-1")),
        ),
        (
            "value.deserializer: string",
            "{value.encoding: UTF-16}",
            Deserialization(value=Deserializer("string", "UTF-16")),
        ),
        (
            "{key,value}.deserializer: string\n  deserializer.encoding: ascii\n  key.deserializer.encoding: UTF-16LE",
            "{}",
            Deserialization(Deserializer("string", "UTF-16LE"), Deserializer("string", "US-ASCII")),
        ),
        (
            "value.deserializer: json",
            f"{{value.schema: '{COLUMNS}'}}",
            Deserialization(value=Deserializer("json", schema=COLUMNS)),
        ),
        (
            "value.deserializer: json",
            "\n  value.schema:\n    type: object\n    properties: {flight: {type: integer}}",
            Deserialization(value=Deserializer("json", schema=json.dumps(OBJECT))),
        ),
        (
            "key.deserializer: json",
            f"{{key.schema: '{json.dumps(OBJECT)}'}}",
            Deserialization(key=Deserializer("json", schema=json.dumps(OBJECT))),
        ),
        (
            "value.deserializer: io.confluent.kafka.serializers.KafkaAvroDeserializer",
            "{}",
            Deserialization(value=Deserializer("avro"), registry="schema_registry_default"),
        ),
        (
            "key.deserializer: protobuf\n  value.deserializer: json-schema",
            "{schema-registry: ours}",
            Deserialization(Deserializer("protobuf"), Deserializer("json-schema"), registry="ours"),
        ),
    ],
)
def test_each_deserializer_has_what_belongs_to_it(reading, consumer, options, expected):
    found = reading(decoded(consumer, options))
    assert found.problems == ()
    assert found.subscription.deserialization == expected


@pytest.mark.parametrize(
    ("consumer", "options", "expected"),
    [
        ("value.deserializer: json", "{}", (5, "deserialization.value.schema", "required")),
        ("value.deserializer: json", "{value.schema: }", (5, "deserialization.value.schema", "required")),
        ("value.deserializer: json", "{value.schema: 5}", (5, "deserialization.value.schema", "allowed")),
        ("value.deserializer: json", "{value.schema: [a]}", (5, "deserialization.value.schema", "allowed")),
        ("value.deserializer: string", "{value.schema: a INT}", (5, "deserialization.value.schema", "refused")),
        ("value.deserializer: avro", "{value.schema: a INT}", (5, "deserialization.value.schema", "refused")),
        ("value.deserializer: long", "{value.encoding: UTF-8}", (5, "deserialization.value.encoding", "refused")),
        ("value.deserializer: string", "{key.encoding: UTF-8}", (5, "deserialization.key.encoding", "refused")),
        ("value.deserializer: string", "{value.encoding: EBCDIC}", (5, "deserialization.value.encoding", "allowed")),
        ("key.deserializer.encoding: UTF-8", "{}", (4, "consumer.key.deserializer.encoding", "refused")),
        ("deserializer.encoding: UTF-8", "{}", (4, "consumer.deserializer.encoding", "refused")),
        ("value.deserializer: string", "{schema-registry: x}", (5, "deserialization.schema-registry", "refused")),
        ("client.id: c", "avro", (5, "deserialization", "allowed")),
    ],
)
def test_an_option_that_belongs_to_another_deserializer_is_refused(reading, consumer, options, expected):
    found = reading(decoded(consumer, options))
    assert told(found) == [expected]
    assert found.subscription is None


def test_nothing_is_concluded_from_a_deserializer_that_is_wrong(reading):
    options = "{schema-registry: x, value.schema: a INT, value.encoding: UTF-8}"
    text = "fail-on-deserialization-failure: false\n" + decoded("value.deserializer: strin", options)
    assert told(reading(text)) == [(5, "consumer.value.deserializer", "allowed")]


def test_both_names_of_an_encoding_are_an_error(reading):
    text = decoded("value.deserializer: string\n  value.deserializer.encoding: UTF-8", "{value.encoding: UTF-8}")
    assert told(reading(text)) == [(6, "deserialization.value.encoding", "given-twice")]


@pytest.mark.parametrize(
    ("line", "fails", "warned"), [("true", True, False), ("false", False, True)], ids=["fails", "rejects"]
)
def test_failing_or_rejecting_is_the_definition_s_to_say(reading, line, fails, warned):
    text = f"fail-on-deserialization-failure: {line}\n"
    string = reading(text + decoded("value.deserializer: string"))
    assert (string.problems, string.subscription.deserialization.fails) == ((), fails)
    bytes_ = reading(text + decoded("client.id: c"))
    assert [(each.rule, each.severity) for each in bytes_.problems] == ([("no-effect", "warning")] if warned else [])
    assert bytes_.subscription is not None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("landing-engine: spark", []),
        ("landing-engine: spark\nmembers: 1", []),
        ("landing-engine: python\nmembers: 2", []),
        ("landing-engine: spark\nmembers: 2", [(5, "members", "refused")]),
    ],
)
def test_spark_lands_by_one_job(with_lines, lines, expected):
    assert told(with_lines(lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("drain: {max-runs: 10}\n", []),
        ("commit-strategy: manual\ndrain: {max-runs: 0}\n", []),
        ("commit-strategy: manual\ndrain: {max-runs: 10}\n", [(5, "drain.max-runs", "refused")]),
    ],
)
def test_no_run_follows_by_itself_where_a_person_commits(reading, lines, expected):
    assert told(reading(LEAST + lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("schedule: {records: 10}\n", []),
        ("schedule: {records: 10}\ncommit-strategy: checkpoint\n", []),
        ("schedule: {records: 10}\ncommit-strategy: ignore\n", [(4, "schedule", "refused")]),
    ],
)
def test_records_wait_only_for_a_group_that_has_positions(reading, lines, expected):
    assert [each for each in told(reading(LEAST + lines)) if each[1] == "schedule"] == expected
