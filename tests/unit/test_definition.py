"""Definitions as users write them, right and wrong."""

import json
import pickle
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from textwrap import dedent
from time import perf_counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tidegate.definition import CONSUMER, SECTIONS, TOP, DefinitionError, Reading, load, load_named, read
from tidegate.errors import WrongDefinitionError
from tidegate.properties import translate
from tidegate.subscription import (
    Cursor,
    Processing,
    Subscription,
    TopicNames,
    TopicPartitions,
    TopicPattern,
)

FLIGHTS = Path(__file__).parents[2] / "include/subscriptions/flights.yaml"

LEAST = """\
topics: [flights]
consumer: {group.id: g}
processing: {output: out}
"""


@pytest.fixture
def reading(tmp_path):
    def write_and_read(text: str, name: str = "flights.yaml") -> Reading:
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
        return read(tmp_path / name)

    return write_and_read


@pytest.fixture
def with_lines(reading):
    """The least definition with more lines, which start on line 4."""

    def write_and_read(text: str) -> Reading:
        return reading(LEAST + dedent(text))

    return write_and_read


def told(reading: Reading) -> list[tuple[int, str, str]]:
    return [(each.line, each.property, each.rule) for each in reading.problems]


def test_the_shipped_subscription():
    assert load(FLIGHTS) == Subscription(
        name="flights",
        description="Departures of the New York airports, one row each",
        schedule=None,
        connection="kafka_default",
        topics=TopicNames(("flights",)),
        members=2,
        consumer=load(FLIGHTS).consumer,
        poll_timeout_ms=60_000,
        commit_timeout_ms=15_000,
        commit_strategy="after-processing",
        failure_strategy="fail",
        commit_fence="transactional",
        on_data_loss="fail",
        cursor=None,
        max_retries=2,
        retry_delay_ms=1_000,
        row_accounting="strict",
        landing_engine="python",
        processing=Processing("data/lake/flights", "spark_default", "transforms.flights:departures", ("carrier",)),
    )
    consumer = load(FLIGHTS).consumer
    assert (consumer.group_id, consumer.max_poll_records, consumer.auto_offset_reset) == (
        "flights-lake",
        100_000,
        "earliest",
    )
    assert read(FLIGHTS).problems == ()


def test_the_least_definition_has_the_defaults(reading):
    subscription = reading(LEAST).subscription
    assert subscription is not None
    assert subscription.consumer.max_poll_records == 500
    assert subscription.consumer.max_poll_interval_ms == 300_000
    assert subscription.consumer.auto_offset_reset == "latest"
    assert subscription.consumer.isolation_level == "read_committed"
    assert subscription.consumer.librdkafka == translate({"group.id": "g"})
    assert (subscription.members, subscription.poll_timeout_ms, subscription.commit_timeout_ms) == (1, 60_000, 15_000)
    assert (subscription.max_retries, subscription.on_data_loss, subscription.row_accounting) == (2, "fail", "strict")
    assert subscription.processing == Processing("out", "spark_default", None, ())


def test_consumer_properties_reach_the_client(reading):
    given_ = reading(LEAST.replace("{group.id: g}", "{group.id: g, fetch.max.wait.ms: 250, max.poll.records: 7}"))
    assert given_.subscription is not None
    assert given_.subscription.consumer.librdkafka == translate({"group.id": "g", "fetch.max.wait.ms": 250})
    assert given_.subscription.consumer.max_poll_records == 7


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
        ("cursor: LATEST", "cursor", "allowed"),
        ("consumer.group.id: g", "consumer.group.id", "unknown"),
        ("grup: g", "grup", "unknown"),
        ("members: 0", "members", "allowed"),
        ("members:", "members", "allowed"),
        ("poll-timeout.ms: 1m", "poll-timeout.ms", "allowed"),
        ("max-retries: -1", "max-retries", "allowed"),
        ("connection: ''", "connection", "allowed"),
        ("connection: [a]", "connection", "allowed"),
        ("description: 5", "description", "allowed"),
        ("on-data-loss: skip", "on-data-loss", "allowed"),
        ("schedule: 5 minutes", "schedule", "allowed"),
        ("schedule: '61 * * * *'", "schedule", "allowed"),
        ("schedule: '@dayly'", "schedule", "allowed"),
        ("schedule: 5", "schedule", "allowed"),
        ("commit-strategy: throttled", "commit-strategy", "not-available"),
        ("commit-strategy: on-receipt", "commit-strategy", "not-available"),
        ("commit-strategy: sometimes", "commit-strategy", "allowed"),
        ("failure-strategy: ignore", "failure-strategy", "not-available"),
        ("failure-strategy: ask", "failure-strategy", "not-available"),
        ("commit-fence: kerberos", "commit-fence", "allowed"),
        ("landing-engine: rust", "landing-engine", "allowed"),
        ("dead-letter-queue.topic: dead", "dead-letter-queue.topic", "not-available"),
        ("dead-letter-queue: {topic: dead}", "dead-letter-queue", "not-available"),
        ("delayed-retry-topic.timeout: 1", "delayed-retry-topic.timeout", "not-available"),
        ("checkpoint.unsynced-state-max-age.ms: 1", "checkpoint.unsynced-state-max-age.ms", "not-available"),
        ("throttled.unprocessed-record-max-age.ms: 1", "throttled.unprocessed-record-max-age.ms", "not-available"),
        ("auto.commit.interval.ms: 1", "auto.commit.interval.ms", "not-available"),
        ("deserialization: {}", "deserialization", "not-available"),
    ],
)
def test_a_wrong_line_is_one_problem_on_that_line(with_lines, line, property_, rule):
    found = with_lines(line)
    assert told(found) == [(4, property_, rule)]
    assert found.subscription is None
    assert property_ in found.problems[0].message


@pytest.mark.parametrize(
    ("old", "new", "property_", "rule"),
    [
        ("[flights]", "flights", "topics", "allowed"),
        ("[flights]", "[]", "topics", "allowed"),
        ("[flights]", "[a/b]", "topics", "allowed"),
        ("[flights]", "['..']", "topics", "allowed"),
        ("[flights]", "[2013]", "topics", "allowed"),
        ("[flights]", "[a, a]", "topics", "allowed"),
        ("topics: [flights]", "pattern: '('", "pattern", "allowed"),
        ("topics: [flights]", "pattern: ''", "pattern", "allowed"),
        ("topics: [flights]", "partitions: [0]", "partitions", "allowed"),
        ("topics: [flights]", "partitions: {a: []}", "partitions", "allowed"),
        ("topics: [flights]", "partitions: {a: [-1]}", "partitions", "allowed"),
        ("topics: [flights]", "partitions: {a/b: [1]}", "partitions", "allowed"),
        ("group.id: g", "client.id: c", "consumer.group.id", "required"),
        ("consumer: {group.id: g}", "consumer:", "consumer.group.id", "required"),
        ("group.id: g", "group.id: g, group.instance.id: i", "consumer.group.instance.id", "refused"),
        ("group.id: g", "group.id: g, value.deserializer: x", "consumer.value.deserializer", "not-available"),
        ("group.id: g", "group.id: g, enable.auto.commit: true", "consumer.enable.auto.commit", "allowed"),
        ("output: out", "connection: c", "processing.output", "required"),
        ("output: out", "output: ''", "processing.output", "allowed"),
        ("output: out", "output: 'data/*'", "processing.output", "allowed"),
        ("output: out", "output: file://host/x", "processing.output", "allowed"),
        ("output: out", "output: out, transform: flights", "processing.transform", "allowed"),
        ("output: out", "output: out, transform: '../x:y'", "processing.transform", "allowed"),
        ("output: out", "output: out, partition-by: carrier", "processing.partition-by", "allowed"),
        ("output: out", "output: out, partition-by: [batch_id]", "processing.partition-by", "allowed"),
        ("output: out", "output: out, partition-by: [_x]", "processing.partition-by", "allowed"),
        ("output: out", "output: out, partition-by: [a, A]", "processing.partition-by", "allowed"),
    ],
)
def test_a_wrong_value_in_place_of_a_right_one(reading, old, new, property_, rule):
    assert old in LEAST
    found = reading(LEAST.replace(old, new))
    assert [(each.property, each.rule) for each in found.problems] == [(property_, rule)]
    assert found.problems[0].line == (LEAST.splitlines().index(next(x for x in LEAST.splitlines() if old in x)) + 1)


@pytest.mark.parametrize("place", ["s3://b/x", "s3a://b/x", "gs://b/x", "abfs://c@a/x", "abfss://c@a/x", "S3://b/x"])
def test_an_output_without_atomic_rename_is_refused_with_the_reason(reading, place):
    (problem,) = reading(LEAST.replace("output: out", f"output: '{place}'")).problems
    assert "one atomic rename" in problem.message
    assert problem.property == "processing.output"


@pytest.mark.parametrize("place", ["data/lake", "/lake", "file:///lake", "file:/lake", "hdfs://name:8020/lake"])
def test_an_output_with_atomic_rename_is_taken(reading, place):
    assert reading(LEAST.replace("output: out", f"output: '{place}'")).problems == ()


def test_every_problem_of_a_file_in_one_report(reading):
    found = reading(
        """\
        topics: [flights]
        schedule: "@dayly"
        consumer:
          group.id: g
          max.poll.record: 500
          session.timeout.ms: "45000"
          sasl.password: hunter2
          bootstrap.servers: broker:9092
          max.poll.interval.ms: 60000
        commit-timeout.ms: 60001
        urecp-kafka.poll-timeout.ms: 41650
        procesing: {}
        processing:
          output: s3://bucket/lake
        members: 2
        members: 3
        """
    )
    assert told(found) == [
        (2, "schedule", "allowed"),
        (5, "consumer.max.poll.record", "unknown"),
        (6, "consumer.session.timeout.ms", "allowed"),
        (7, "consumer.sasl.password", "refused"),
        (8, "consumer.bootstrap.servers", "refused"),
        (9, "consumer.max.poll.interval.ms", "R2"),
        (11, "poll-timeout.ms", "R3"),
        (12, "procesing", "unknown"),
        (14, "processing.output", "allowed"),
        (16, "members", "duplicate-key"),
    ]
    assert {each.severity for each in found.problems if each.rule == "R3"} == {"warning"}
    texts = [each.message for each in found.problems]
    assert "did you mean @daily?" in texts[0]
    assert "did you mean max.poll.records?" in texts[1]
    assert "did you mean processing?" in texts[7]
    assert "first on line 15" in texts[9]
    assert "hunter2" not in str(DefinitionError(found.problems)) + repr(found.problems)


def test_both_names_of_one_property_are_an_error(with_lines):
    found = with_lines("poll-timeout.ms: 60000\nurecp-kafka.poll-timeout.ms: 60000\n")
    assert told(found) == [(5, "urecp-kafka.poll-timeout.ms", "given-twice")]


def test_hitachi_s_names_are_taken(with_lines):
    subscription = with_lines("urecp-kafka.poll-timeout.ms: 50000\nurecp-kafka.commit-timeout.ms: 7000\n").subscription
    assert subscription is not None
    assert (subscription.poll_timeout_ms, subscription.commit_timeout_ms) == (50_000, 7_000)


def test_a_warning_does_not_keep_a_definition_from_being_used(with_lines, tmp_path):
    found = with_lines("poll-timeout.ms: 41650\n")
    assert [(each.rule, each.severity) for each in found.problems] == [("R3", "warning")]
    assert load(tmp_path / "flights.yaml").poll_timeout_ms == 41_650


@pytest.mark.parametrize("preset", ["@once", "@continuous", "@daily", "*/5 * * * *", "0 6 * * MON-FRI"])
def test_schedules_as_airflow_takes_them(with_lines, preset):
    found = with_lines(f"schedule: '{preset}'")
    assert found.subscription is not None, found.problems
    assert found.subscription.schedule == preset


def test_anchors_and_merge_keys_are_resolved(reading):
    found = reading(
        """\
        consumer: &usual
          group.id: g
          max.poll.records: 10
          fetch.max.wait.ms: wrong
        processing: {output: out}
        cursor:
          <<: [{type: AT_OFFSET}, {type: LATEST, offset: 4}]
        topics: &topics [flights]
        """
    )
    assert told(found) == [(4, "consumer.fetch.max.wait.ms", "allowed")]
    assert found.draft is not None
    assert found.draft.cursor == Cursor("AT_OFFSET", offset=4)


def test_a_merged_property_is_shown_where_it_is_written(reading):
    found = reading(
        """\
        topics: [flights]
        cursor: &base
          type: LATEST
          output: x
        consumer: {group.id: g}
        processing:
          <<: *base
          output: out
        """
    )
    assert told(found) == [(3, "processing.type", "unknown"), (4, "cursor.output", "unknown")]


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("", 1, "syntax"),
        ("- a\n- b\n", 1, "syntax"),
        ("a: [\n", 2, "syntax"),
        ("a: 1\n b: 2\n", 2, "syntax"),
        ("a: *nobody\n", 1, "syntax"),
        ("x: &x [*x]\n", 1, "syntax"),
        ("x: !!python/object:os.system {}\n", 1, "syntax"),
        ("--- {}\n--- {}\n", 2, "syntax"),
        ("a: \x00", 0, "syntax"),
        ("? [a]\n: b\n", 1, "syntax"),
        ("<<: 5\n", 1, "syntax"),
        ("a: " + "[" * 3000, 0, "syntax"),
        ("# \n" * 400_000, 0, "unreadable"),
    ],
)
def test_what_is_no_definition_is_a_problem_with_its_line(reading, text, line, rule):
    found = reading(text)
    assert (line, rule) in [(each.line, each.rule) for each in found.problems]
    assert found.subscription is None


def test_a_file_that_is_not_text_or_not_there(tmp_path):
    path = tmp_path / "flights.yaml"
    assert [each.rule for each in read(path).problems] == ["unreadable"]
    path.write_bytes(b"description: a\nschedule: \xff\n")
    assert told(read(path)) == [(2, "", "unreadable")]
    assert [each.rule for each in read(tmp_path).problems] == ["name", "unreadable"]


def test_many_aliases_stay_cheap(reading):
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{each}: &{each} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, each in zip("abcdefg", "bcdefgh", strict=True)
    )
    started = perf_counter()
    assert reading(bomb).problems
    assert perf_counter() - started < 5


@pytest.mark.parametrize("name", ["Flights.yaml", "1st.yaml", "a b.yaml", "flights.yml"])
def test_a_file_s_name_is_the_dag_s(reading, name):
    assert [each.rule for each in reading(LEAST, name).problems] == ["name"]


def test_an_error_lists_every_problem_with_its_place(tmp_path, with_lines):
    with_lines("members: 0\nfoo: 1\n")
    with pytest.raises(WrongDefinitionError) as caught:
        load(tmp_path / "flights.yaml")
    assert isinstance(caught.value, DefinitionError)
    assert [each.line for each in caught.value.problems] == [4, 5]
    assert f"{tmp_path}/flights.yaml:4: error: members must be" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert copy.problems == caught.value.problems


def test_a_subscription_is_found_by_its_name():
    assert load_named("flights", FLIGHTS.parent).name == "flights"
    with pytest.raises(DefinitionError, match="did you mean flights"):
        load_named("flight", FLIGHTS.parent)
    with pytest.raises(DefinitionError, match=r"no subscription '\.\./subscriptions/flights'"):
        load_named("../subscriptions/flights", FLIGHTS.parent)


@pytest.mark.parametrize(
    "text",
    ["connection: {password: hunter2}", "topics: [{password: hunter2}]", "pasword: x\nconsumer: {ssl.key: hunter2}"],
)
def test_secrets_in_the_wrong_place_are_not_repeated(reading, text):
    problems = reading(text).problems
    assert problems
    assert "hunter2" not in repr(problems)


def names() -> list[str]:
    return [*TOP, "consumer", *SECTIONS, "urecp-kafka.poll-timeout.ms", "dead-letter-queue.topic", "<<"]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.datetimes()
    | st.sampled_from(
        ["a", "@daily", "* * * * *", "AT_TIME", "fail", "throttled", "s3://b", "file://x", "0x" + "f" * 9999]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from([*CONSUMER, "output", "type", "time"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def judged(path: Path, text: bytes) -> None:
    """A subscription or problems, each of which can be shown; never anything else."""
    path.write_bytes(text)
    found = read(path)
    errors = [each for each in found.problems if each.severity == "error"]
    assert (found.subscription is None) == bool(errors)
    for each in found.problems:
        assert each.message
        assert each.rule
        json.dumps(asdict(each), allow_nan=False)
        str(each).encode("utf-8", "backslashreplace")
    if found.subscription is not None:
        hash(found.subscription)


@FUZZ
@given(document=st.dictionaries(st.sampled_from(names()), VALUES, max_size=8))
def test_any_structure_is_judged_and_never_a_traceback(tmp_path, document):
    stream = StringIO()
    YAML(typ="safe", pure=True).dump(document, stream)
    judged(tmp_path / "flights.yaml", stream.getvalue().encode("utf-8", "surrogatepass"))


MARKS = (
    *":-?&*!|>{}[],#%@`'\" \n\t",
    *("\n", " ", "  ", ": ", "- ", "---", "...", "|2", "\ufeff", "%YAML 1.1\n"),
    *("&a", "*a", "!!int", "!!binary", "!!set", "0x", "1e9", "2026-13-45"),
)
YAMLISH = st.lists(st.sampled_from((*names(), *CONSUMER, *MARKS)) | st.text(max_size=6), max_size=40).map("".join)


@FUZZ
@given(text=YAMLISH.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
@example(text=b"a: !!int x")
@example(text=b"members: !!float x")
@example(text=b"? |\n")
@example(text=b"a: !!timestamp 2026-99-99")
@example(text=b"members: 0x" + b"f" * 9999)
@example(text=b"members: " + b"9" * 9999)
@example(text=b"&a <<: *a\n")
@example(text=b"x: &a\n  <<: *a\n")
@example(text=b"%TAG ! tag:x\n---\na: !b c\n")
@example(text=b"schedule: '0-59/0 * * * *'")
def test_any_text_is_judged_and_never_a_traceback(tmp_path, text):
    judged(tmp_path / "flights.yaml", text)


@FUZZ
@given(insertion=YAMLISH, where=st.integers(0, 900))
def test_a_good_file_with_anything_in_its_midst_is_judged(tmp_path, insertion, where):
    good = FLIGHTS.read_text()
    judged(tmp_path / "flights.yaml", (good[:where] + insertion + good[where:]).encode("utf-8", "surrogatepass"))


def test_a_long_chain_of_merges_is_judged(tmp_path):
    chain = "x0: &a0 {y: 1}\n" + "".join(f"x{i}: &a{i}\n  <<: *a{i - 1}\n" for i in range(1, 2000))
    judged(tmp_path / "flights.yaml", (chain + "<<: *a1999\n").encode())


def test_reading_is_fast_and_imports_are_light():
    script = f"""
import sys, time, pathlib
from tidegate.definition import load
load(pathlib.Path({str(FLIGHTS)!r}))
started = time.perf_counter()
load(pathlib.Path({str(FLIGHTS)!r}))
print(time.perf_counter() - started)
print([name for name in ("confluent_kafka", "pyarrow", "sqlalchemy", "airflow", "pydantic", "croniter", "pyspark")
       if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split("\n")
    assert float(out[0]) < 0.020
    assert out[1] == "[]"
