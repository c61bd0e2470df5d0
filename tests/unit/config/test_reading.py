"""Definitions as users write them, right and wrong."""

import os
import pickle
import re
import subprocess
import sys
from time import process_time

import pytest
from definition_files import FLIGHTS, LEAST, told

from tidegate.config.consumer_properties import translate
from tidegate.config.reading import DefinitionError, load, read
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import Cursor, Processing, Subscription, TopicNames


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
          output: s3n://bucket/lake
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


def test_a_warning_does_not_keep_a_definition_from_being_used(with_lines, tmp_path):
    found = with_lines("poll-timeout.ms: 41650\n")
    assert [(each.rule, each.severity) for each in found.problems] == [("R3", "warning")]
    assert load(tmp_path / "flights.yaml").poll_timeout_ms == 41_650


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


def test_a_file_that_would_never_end_is_not_read(tmp_path):
    pipe, link, device = tmp_path / "pipe.yaml", tmp_path / "link.yaml", tmp_path / "zero.yaml"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, link, device):
        (problem,) = read(path).problems
        assert (problem.rule, problem.message) == ("unreadable", "the file can't be read: it isn't a regular file")


def test_many_aliases_stay_cheap(reading):
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{each}: &{each} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, each in zip("abcdefg", "bcdefgh", strict=True)
    )
    started = process_time()
    assert reading(bomb).problems
    assert process_time() - started < 5


@pytest.mark.parametrize("name", ["Flights.yaml", "1st.yaml", "a b.yaml", "flights.yml"])
def test_a_file_s_name_is_the_dag_s(reading, name):
    assert [each.rule for each in reading(LEAST, name).problems] == ["name"]


def test_what_is_said_of_a_definition_that_cannot_be_used_are_its_errors_alone(tmp_path, with_lines):
    with_lines("poll-timeout.ms: 5000\nmembers: 0\n")
    with pytest.raises(DefinitionError) as caught:
        load(tmp_path / "flights.yaml")
    assert {each.severity for each in caught.value.problems} == {"warning", "error"}
    assert str(caught.value).count("\n") == 0
    assert "members must be" in str(caught.value)


def test_an_error_lists_every_problem_with_its_place(tmp_path, with_lines):
    with_lines("members: 0\nfoo: 1\n")
    with pytest.raises(WrongDefinitionError) as caught:
        load(tmp_path / "flights.yaml")
    assert isinstance(caught.value, DefinitionError)
    assert [each.line for each in caught.value.problems] == [4, 5]
    assert f"{tmp_path}/flights.yaml:4: error: members must be" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert copy.problems == caught.value.problems


def test_reading_is_fast_and_imports_are_light():
    script = f"""
import sys, time, pathlib
from tidegate.config.reading import load
load(pathlib.Path({str(FLIGHTS)!r}))
started = time.process_time()
load(pathlib.Path({str(FLIGHTS)!r}))
print(time.process_time() - started)
print([name for name in ("confluent_kafka", "pyarrow", "sqlalchemy", "airflow", "pydantic", "croniter", "pyspark")
       if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split("\n")
    assert float(out[0]) < 0.020
    assert out[1] == "[]"


def test_a_run_may_change_properties_by_their_whole_names():
    changed = load(FLIGHTS, {"consumer.max.poll.records": 7, "poll-timeout.ms": 1_500})
    assert (changed.consumer.max_poll_records, changed.poll_timeout_ms) == (7, 1_500)
    assert changed.consumer.group_id == load(FLIGHTS).consumer.group_id
    assert load(FLIGHTS).consumer.max_poll_records == 100_000
    assert load(FLIGHTS, {"consumer.max.poll.records": None}) == load(FLIGHTS)


@pytest.mark.parametrize(
    ("name", "value"),
    [("poll-timeout.ms", 0), ("poll-timeout.ms", "60s"), ("consumer.max.poll.records", -1)],
)
def test_what_a_run_changes_is_held_to_the_same_rules(name, value):
    with pytest.raises(DefinitionError, match=re.escape(name)):
        load(FLIGHTS, {name: value})


def test_what_a_run_changes_is_held_to_the_rules_between_properties(tmp_path):
    path = tmp_path / "flights.yaml"
    path.write_text(f"{LEAST}\npoll-timeout.ms: 1000\nexecution-timeout.ms: 400000\n")
    assert load(path).poll_timeout_ms == 1_000
    with pytest.raises(DefinitionError, match=r"execution-timeout\.ms \(400000\) must be longer"):
        load(path, {"poll-timeout.ms": 200_000})
