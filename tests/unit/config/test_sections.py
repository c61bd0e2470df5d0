"""Names and values of a definition, right and wrong."""

import pytest
from definition_files import LEAST, told

from tidegate.config.reading import read


@pytest.mark.parametrize(
    ("line", "property_", "rule"),
    [
        ("cursor: LATEST", "cursor", "allowed"),
        ("consumer.group.id: g", "consumer.group.id", "unknown"),
        ("grup: g", "grup", "unknown"),
        ("members: 0", "members", "allowed"),
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
        ("commit-strategy: sometimes", "commit-strategy", "allowed"),
        ("failure-strategy: [ask]", "failure-strategy", "allowed"),
        ("commit-fence: kerberos", "commit-fence", "allowed"),
        ("landing-engine: rust", "landing-engine", "allowed"),
        ("dead-letter-queue.topic: a/b", "dead-letter-queue.topic", "allowed"),
        ("dead-letter-queue.limit: 100.1%", "dead-letter-queue.limit", "allowed"),
        ("dead-letter-queue: {topic: dead}", "dead-letter-queue", "unknown"),
        ("delayed-retry-topic.topics: [orders_retry]", "delayed-retry-topic.topics", "allowed"),
        ("delayed-retry-topic.topics: [a_1, b_2, a_1]", "delayed-retry-topic.topics", "allowed"),
        ("delayed-retry-topic.max-retries: 0", "delayed-retry-topic.max-retries", "allowed"),
        ("delayed-retry-topic.timeout: 2m", "delayed-retry-topic.timeout", "allowed"),
        ("checkpoint.unsynced-state-max-age.ms: -2", "checkpoint.unsynced-state-max-age.ms", "allowed"),
        ("throttled.unprocessed-record-max-age.ms: -2", "throttled.unprocessed-record-max-age.ms", "allowed"),
        ("auto.commit.interval.ms: -1", "auto.commit.interval.ms", "allowed"),
        ("consumer.auto.commit.interval.ms: 1", "consumer.auto.commit.interval.ms", "refused"),
        ("enable.auto.commit: false", "enable.auto.commit", "unknown"),
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
        ("group.id: g", "group.id: g, value.deserializer: x", "consumer.value.deserializer", "allowed"),
        ("group.id: g", "group.id: g, enable.auto.commit: true", "consumer.enable.auto.commit", "allowed"),
        ("output: out", "connection: c", "processing.output", "required"),
        ("output: out", "output: ''", "processing.output", "allowed"),
        ("output: out", "output: 'data/*'", "processing.output", "allowed"),
        ("output: out", "output: file://host/x", "processing.output", "allowed"),
        ("output: out", "output: out, transform: flights", "processing.transform", "allowed"),
        ("output: out", "output: out, transform: '../x:y'", "processing.transform", "allowed"),
        ("output: out", "output: out, partition-by: carrier", "processing.partition-by", "allowed"),
        ("output: out", "output: out, partition-by: [batch_id]", "processing.partition-by", "allowed"),
        ("output: out", "output: out, partition-by: [Batch_ID]", "processing.partition-by", "allowed"),
        ("output: out", "output: 'hdfs://user:secret@name/lake'", "processing.output", "allowed"),
        ("output: out", "output: out, partition-by: [_x]", "processing.partition-by", "allowed"),
        ("output: out", "output: out, partition-by: [a, A]", "processing.partition-by", "allowed"),
    ],
)
def test_a_wrong_value_in_place_of_a_right_one(reading, old, new, property_, rule):
    assert old in LEAST
    found = reading(LEAST.replace(old, new))
    assert [(each.property, each.rule) for each in found.problems] == [(property_, rule)]
    assert found.problems[0].line == (LEAST.splitlines().index(next(x for x in LEAST.splitlines() if old in x)) + 1)


@pytest.mark.parametrize("place", ["data/lake", "/lake", "file:///lake", "file:/lake", "hdfs://name:8020/lake"])
def test_an_output_with_atomic_rename_is_taken(reading, place):
    assert reading(LEAST.replace("output: out", f"output: '{place}'")).problems == ()


def test_both_names_of_one_property_are_an_error(with_lines):
    found = with_lines("poll-timeout.ms: 60000\nurecp-kafka.poll-timeout.ms: 60000\n")
    assert told(found) == [(5, "urecp-kafka.poll-timeout.ms", "given-twice")]


def test_hitachi_s_names_are_taken(with_lines):
    subscription = with_lines("urecp-kafka.poll-timeout.ms: 50000\nurecp-kafka.commit-timeout.ms: 7000\n").subscription
    assert subscription is not None
    assert (subscription.poll_timeout_ms, subscription.commit_timeout_ms) == (50_000, 7_000)


@pytest.mark.parametrize("preset", ["@once", "@continuous", "@daily", "*/5 * * * *", "0 6 * * MON-FRI"])
def test_schedules_as_airflow_takes_them(with_lines, preset):
    found = with_lines(f"schedule: '{preset}'")
    assert found.subscription is not None, found.problems
    assert found.subscription.schedule == preset


@pytest.mark.parametrize(
    "text",
    ["connection: {password: hunter2}", "topics: [{password: hunter2}]", "pasword: x\nconsumer: {ssl.key: hunter2}"],
)
def test_secrets_in_the_wrong_place_are_not_repeated(reading, text):
    problems = reading(text).problems
    assert problems
    assert "hunter2" not in repr(problems)


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("connection: broker:9092", "connection", "broker:9092"),
        ("deserialization: {schema-registry: 'http://localhost:8081'}", "deserialization.schema-registry", "http://l"),
        ("processing: {output: out, connection: 'spark://host:7077'}", "processing.connection", "spark://host:7077"),
    ],
)
def test_an_address_is_no_connections_id(reading, line, path, value):
    processing = "" if line.startswith("processing") else "processing: {output: out}\n"
    problem = reading(f"topics: [flights]\nconsumer: {{group.id: g}}\n{processing}{line}").problems[0]
    assert problem.message.startswith(
        f"{path} must be an Airflow connection's id (an address goes into the connection); it is '{value}"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("connectTimeoutMs: 2", "connectTimeoutMs isn't a property; did you mean processing.connect-timeout.ms?"),
        ("processing.connectTimeoutMs: 2", "did you mean processing.connect-timeout.ms?"),
        ("cursor: {requestTimeoutMs: 2}", "did you mean consumer.request.timeout.ms or processing.request-timeout.ms?"),
        (
            "cursor: {pollTimeoutMs: 2}",
            "cursor.pollTimeoutMs isn't a property; did you mean poll-timeout.ms at the top",
        ),
        ("membres: 2", "membres isn't a property; did you mean members?"),
        ("Members: 2", "Members isn't a property; did you mean members?"),
        ("consumers: {}", "consumers isn't a property; did you mean consumer?"),
        ("group.id: g", "group.id isn't a property here: group.id stands under consumer"),
        ("consumer.group.id: g", "consumer.group.id isn't a property here: group.id stands under consumer"),
        (
            "value.deserializer: string",
            "value.deserializer isn't a property here: value.deserializer stands under consumer",
        ),
        ("output: x", "output isn't a property here: output stands under processing"),
        ("processing.output: x", "processing.output isn't a property here: output stands under processing"),
        ("deserialization.value.schema: x", "schema isn't a property here: value.schema stands under deserialization"),
        ("type: LATEST", "type isn't a property here: type stands under cursor"),
        ("schema-registry: x", "schema-registry isn't a property here: schema-registry stands under deserialization"),
        ("bootstrap.servers: b", "bootstrap.servers belongs in the Airflow connection"),
        ("consumer.sasl.jaas.config: b", "consumer.sasl.jaas.config belongs in the Airflow connection"),
        (
            "commit-timeout: {ms: 5}",
            "commit-timeout isn't a property: write the whole name on one line, as in commit-timeout.ms",
        ),
        ("cursor: {typ: LATEST}", "cursor.typ isn't a property; did you mean type?"),
        (
            "deserialization: {value: {schema: a}}",
            "write the whole name on one line, as in value.schema under deserialization",
        ),
        (
            "deserialization: {value.shema: a}",
            "deserialization.value.shema isn't a property; did you mean value.schema?",
        ),
        ("zzz: 1", "zzz isn't a property"),
    ],
)
def test_an_unknown_name_is_told_what_was_meant(with_lines, line, said):
    problem = with_lines(line).problems[0]
    assert said in problem.message
    assert problem.line == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("group: {id: x}", "consumer.group isn't a property: write the whole name on one line, as in group.id under c"),
        ("consumer.group.id: x", "consumer.consumer.group.id isn't a property here: group.id stands under consumer"),
        ("max: {poll: {records: 5}}", "write the whole name on one line, as in max.poll.records"),
        ("max.poll.record: 5", "did you mean max.poll.records?"),
        ("members: 5", "consumer.members isn't a property here: members stands at the top level"),
        ("auto.commit.interval.ms: 5", "stands at the top level here"),
        ("enable.auto.commit: true", "on-receipt comes nearest"),
        (
            "schema.registry.url: 'http://user:hunter2@registry'",
            "the Airflow connection that deserialization.schema-regi",
        ),
        ("basic.auth.user.info: user:hunter2", "the Airflow connection that deserialization.schema-registry names"),
        ("specific.avro.reader: true", "generated Java classes"),
        ("json.value.type: com.example.Flight", "generated Java classes"),
        ("auto.register.schemas: false", "nothing is written to the registry"),
        ("use.latest.version: true", "by which each is decoded"),
        ("interceptor.classes: a.B", "names a Java class"),
        ("group.instance.id: a", "nobody joins the group"),
    ],
)
def test_a_consumer_property_that_is_not_taken_says_why(reading, line, said):
    found = reading(f"topics: [a]\nconsumer:\n  group.id: g\n  {line}\nprocessing: {{output: out}}\n")
    (problem,) = found.problems
    assert said in problem.message
    assert problem.line == 4
    assert "hunter2" not in str(problem) + repr(problem)


def test_a_property_given_twice_names_both_lines_in_any_section(reading):
    found = reading(
        """\
        topics: [flights]
        consumer:
          group.id: g
          max.poll.records: 5
          max.poll.records: 5
        processing:
          output: a
          "output": b
        topics: [flights]
        """
    )
    assert [(each.line, each.property, each.rule) for each in found.problems] == [
        (5, "max.poll.records", "duplicate-key"),
        (8, "output", "duplicate-key"),
        (9, "topics", "duplicate-key"),
    ]
    assert [each.message.partition("first on ")[2][:6] for each in found.problems] == ["line 4", "line 7", "line 1"]


@pytest.mark.parametrize(
    ("section", "hint"),
    [
        ("group.id:orders", ": after `group.id:` a space is missing"),
        ("orders", ""),
        ("[a]", ""),
    ],
)
def test_a_space_that_is_missing_behind_a_colon_is_told(tmp_path, section, hint):
    (tmp_path / "orders.yaml").write_text(f"topics: [orders]\nalerts:\n  {section}\n")
    messages = [each.message for each in read(tmp_path / "orders.yaml").problems]
    assert f"alerts must be a mapping of properties to values{hint}" in messages
