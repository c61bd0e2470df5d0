"""Properties of the other systems, as their users would write them here."""

import pytest
from definition_files import LEAST

from tidegate.config.foreign_properties import ELSEWHERE, elsewhere
from tidegate.config.property_table import ALIASES, PROPERTIES
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic

SMALLRYE = (
    ("poll-timeout: 1000", "poll-timeout.ms"),
    ("topic: flights", "topics: [flights]"),
    ("concurrency: 3", "`members`"),
    ("max-queue-size-factor: 2", "remove it"),
    ("pause-if-no-requests: true", "remove it"),
    ("health-enabled: true", "tidegate status"),
    ("health-topic-verification-enabled: true", "tidegate status"),
    ("channel-name: prices", "the file's name"),
    ("kafka.bootstrap.servers: a:9092", "into the connection"),
    ("apicurio.registry.url: http://a", "deserialization.schema-registry"),
    ("connector: smallrye-kafka", "remove it"),
    ("mp.messaging.incoming.flights.topic: x", "each channel is a file"),
    ("dead-letter-queue.value.serializer: a.B", "keep the bytes"),
    ("dead-letter-queue.producer-client-id: p", "the commit's own producer"),
    ("checkpoint.state-store: redis", "the ledger"),
    ("checkpoint.state-type: a.B", "JSON"),
)
OCI = (
    ("commitOnGet: true", "on-next-poll"),
    ("timeoutInMs: 30000", "max.poll.interval.ms"),
    ("groupName: g", "consumer.group.id"),
    ("instanceName: i", "`members`"),
    ("limit: 100", "consumer.max.poll.records"),
    ("commit_on_get: true", "on-next-poll"),
    ("timeout_in_ms: 30000", "max.poll.interval.ms"),
    ("group_name: g", "consumer.group.id"),
    ("instance_name: i", "`members`"),
    ("stream_id: ocid1", "`topics`"),
)
QUEUE_OVER_HTTP = (
    ("concurrencyFactor: 5", "processing.concurrency-factor"),
    ("autoCommitPeriodMs: 10", "throttled"),
    ("retryBeforeCommit: 3", "processing.retry-before-commit"),
    ("delayOnErrorMs: 5", "processing.delay-on-error.ms"),
    ("subscriptionMethod: {type: http}", "`processing`"),
    ("id: x", "the file's name"),
    ("group: {id: g}", "consumer.group.id"),
    ("broker: b", "`connection`"),
)
HITACHI = (
    ("urecp-kafka.topics: a", "Hitachi"),
    ("urecp-kafka.poll-timeout: 5", "urecp-kafka.poll-timeout.ms"),
    ("MaxTPoolSize: 5", "`members`"),
)
AIRFLOW = (
    ("retries: 3", "max-retries"),
    ("catchup: false", "remove it"),
    ("max_active_runs: 2", "one run"),
)


def test_the_mode_of_sparks_writer_is_none_of_ours(reading):
    (problem,) = reading(LEAST.replace("out}", "out, mode: append}")).problems
    assert problem.message == (
        "processing.mode isn't a property here: rows are appended, or merged by processing.keys: remove it"
    )


def test_a_property_of_airflows_is_said_under_airflow_too(with_lines):
    (problem,) = with_lines("airflow: {retries: 3}").problems
    assert problem.message == "airflow.retries isn't a property here: it is max-retries, at the top level"


@pytest.mark.parametrize(("line", "said"), [*SMALLRYE, *OCI, *QUEUE_OVER_HTTP, *HITACHI, *AIRFLOW])
def test_what_stands_here_for_another_system_s_property_is_said(with_lines, line, said):
    (problem,) = with_lines(line).problems
    assert (problem.line, problem.rule) == (4, "elsewhere")
    assert problem.message.startswith(f"{line.partition(':')[0]} isn't a property here: ")
    assert said in problem.message.partition(": ")[2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cursor: {type: LATEST, groupName: g}", "cursor.groupName isn't a property here: it is consumer.group.id"),
        ("cursor: {type: LATEST, commitOnGet: true}", "cursor.commitOnGet isn't a property here"),
    ],
)
def test_they_are_known_in_every_section(with_lines, line, said):
    (problem,) = with_lines(line).problems
    assert said in problem.message


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("commit-strategy: throttled", "commit_strategy", "throttled"),
        ("commit-strategy: checkpoint", "commit_strategy", "checkpoint"),
        ("failure-strategy: dead-letter-queue", "failure_strategy", "dead-letter-queue"),
        ("dead-letter-queue.topic: dead", "dead_letter_queue", DeadLetterQueue("dead")),
        ("delayed-retry-topic.timeout: 1000000", "delayed_retry_topic", DelayedRetryTopic(timeout_ms=1_000_000)),
        ("auto.commit.interval.ms: 1", "auto_commit_interval_ms", 1),
        ("urecp-kafka.poll-timeout.ms: 50000", "poll_timeout_ms", 50_000),
        ("urecp-kafka.commit-timeout.ms: 7000", "commit_timeout_ms", 7_000),
    ],
)
def test_what_means_the_same_is_taken_under_its_own_name(with_lines, line, field, value):
    assert getattr(with_lines(line).subscription, field) == value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("delayed-retry-topic.topics: a_1,b_2", "must be a list, as in [orders_retry_10000]"),
        ("dead-letter-queue: {topic: dead}", "write the whole name on one line, as in dead-letter-queue.topic"),
        ("partitions: 3", "a number of consumers is `members`"),
        ("pattern: true", "`topics` left out"),
    ],
)
def test_what_another_system_means_by_a_name_of_ours_is_explained(reading, line, said):
    selects = line.startswith(("partitions", "pattern"))
    text = LEAST.replace("topics: [flights]", line) if selects else LEAST + line
    (problem,) = reading(text).problems
    assert said in problem.message


def test_topics_are_a_list_and_not_smallrye_s_text_nor_queue_over_http_s_mappings(reading):
    for topics in ("a,b", "[{name: a}]"):
        (problem,) = reading(LEAST.replace("[flights]", topics)).problems
        assert (problem.line, problem.property, problem.rule) == (1, "topics", "allowed")


def test_an_item_that_is_wrong_is_shown_and_the_whole_isnt_called_wrong(reading):
    (problem,) = reading(LEAST.replace("[flights]", "[{name: a}]")).problems
    assert problem.message.endswith(": a mapping")
    (problem,) = reading(LEAST.replace("topics: [flights]", "partitions: {slack.test: 0}")).problems
    assert problem.message.endswith("slack.test, whose value must be a list, as in [0, 2]")


def test_a_profile_of_quarkus_is_one():
    assert "Quarkus" in (elsewhere("%prod.failure-strategy") or "")


def test_every_sentence_is_of_a_name_that_is_not_known_here():
    for name, said in ELSEWHERE.items():
        assert elsewhere(name) == said
        assert not any(name in keys for keys in PROPERTIES.values())
        assert name not in ALIASES
        assert said.strip() == said
        assert not said.endswith(".")
    assert elsewhere("members") is None
