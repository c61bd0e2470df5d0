"""The strategies of a definition, what belongs to them, and the topics that it mustn't read."""

from typing import get_args

import pytest
from definition_files import LEAST, told

from tidegate.config.property_table import TOP
from tidegate.config.property_types import Choice
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.failure_policy import FailureStrategy
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.strategies.failure.dead_letters import DeadLetters
from tidegate.strategies.failure.delayed_retry import DelayedRetry
from tidegate.strategies.failure.registry import failure_strategy

DEAD = "failure-strategy: dead-letter-queue\n"
RETRY = "failure-strategy: delayed-retry-topic\n"
THROTTLED = "commit-strategy: throttled\n"


def test_every_strategy_can_be_named(with_lines):
    assert {"commit-strategy", "failure-strategy"} == {name for name in TOP if name.endswith("-strategy")}
    for name, words in (("commit-strategy", get_args(CommitStrategy)), ("failure-strategy", get_args(FailureStrategy))):
        assert isinstance(TOP[name].type, Choice)
        assert set(TOP[name].type.words) == set(words)
        for word in words:
            found = with_lines(f"{name}: {word}\n")
            assert found.subscription is not None, found.problems
            assert getattr(found.subscription, name.replace("-", "_")) == word


def test_without_a_word_of_them_they_have_their_defaults(reading):
    subscription = reading(LEAST).subscription
    assert (subscription.commit_strategy, subscription.failure_strategy) == ("after-processing", "fail")
    assert subscription.dead_letter_queue == DeadLetterQueue()
    assert subscription.delayed_retry_topic == DelayedRetryTopic()
    assert subscription.auto_commit_interval_ms == 5_000
    assert subscription.unprocessed_record_max_age_ms == 60_000
    assert subscription.unsynced_state_max_age_ms == 10_000
    assert (subscription.dead_letter_topic, subscription.retry_topics) == (None, ())


@pytest.mark.parametrize(
    ("lines", "field", "value"),
    [
        (f"{THROTTLED}auto.commit.interval.ms: 0", "auto_commit_interval_ms", 0),
        (f"{THROTTLED}throttled.unprocessed-record-max-age.ms: 5000", "unprocessed_record_max_age_ms", 5_000),
        (f"{THROTTLED}throttled.unprocessed-record-max-age.ms: -1", "unprocessed_record_max_age_ms", -1),
        (
            "commit-strategy: checkpoint\ncheckpoint.unsynced-state-max-age.ms: 7",
            "unsynced_state_max_age_ms",
            7,
        ),
        (f"{DEAD}dead-letter-queue.topic: dead", "dead_letter_queue", DeadLetterQueue("dead")),
        (f"{DEAD}dead-letter-queue.topic:", "dead_letter_queue", DeadLetterQueue()),
        (f"{DEAD}dead-letter-queue.limit: 0", "dead_letter_queue", DeadLetterQueue(limit="0")),
        (f"{DEAD}dead-letter-queue.limit: 1%", "dead_letter_queue", DeadLetterQueue(limit="1%")),
        (
            f"{RETRY}delayed-retry-topic.topics: [b_5, a_1]\ndelayed-retry-topic.max-retries: 4",
            "delayed_retry_topic",
            DelayedRetryTopic(("b_5", "a_1"), 4),
        ),
        (f"{RETRY}delayed-retry-topic.timeout: 80000", "delayed_retry_topic", DelayedRetryTopic(timeout_ms=80_000)),
    ],
)
def test_what_belongs_to_a_strategy_is_read_without_a_problem(with_lines, lines, field, value):
    found = with_lines(lines)
    assert found.problems == ()
    assert getattr(found.subscription, field) == value


@pytest.mark.parametrize(
    ("lines", "dead", "retries"),
    [
        ("failure-strategy: fail", None, ()),
        ("failure-strategy: fail\ndead-letter-queue.topic: dead", "dead", ()),
        ("failure-strategy: ignore\ndead-letter-queue.topic: dead", None, ()),
        (DEAD, "dead-letter-topic-flights", ()),
        (f"{DEAD}dead-letter-queue.topic: dead", "dead", ()),
        ("failure-strategy: ask", "dead-letter-topic-flights", ()),
        (RETRY, None, ("flights_retry_10000", "flights_retry_20000", "flights_retry_50000")),
        (f"{RETRY}dead-letter-queue.topic: dead\ndelayed-retry-topic.topics: [a_1]", "dead", ("a_1",)),
    ],
)
def test_the_topics_that_failed_records_go_to(with_lines, lines, dead, retries):
    """As the failure strategies themselves name them."""
    subscription = with_lines(lines).subscription
    assert (subscription.dead_letter_topic, subscription.retry_topics) == (dead, retries)
    match failure_strategy(subscription):
        case DeadLetters(topic):
            assert topic == dead
        case DelayedRetry(topics=topics, dead_letter_topic=topic):
            assert (topic, topics) == (dead, retries)
    assert DeadLetterQueue().of("flights") == "dead-letter-topic-flights"
    assert DelayedRetryTopic().of("flights") == ("flights_retry_10000", "flights_retry_20000", "flights_retry_50000")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("auto.commit.interval.ms: 5000", "it belongs to commit-strategy throttled"),
        ("throttled.unprocessed-record-max-age.ms: 5000", "commit-strategy throttled"),
        ("checkpoint.unsynced-state-max-age.ms: 5000", "commit-strategy checkpoint"),
        ("dead-letter-queue.limit: 5", "failure-strategy dead-letter-queue, and failure-strategy is fail: choose that"),
        ("delayed-retry-topic.topics: [a_1]", "failure-strategy delayed-retry-topic"),
        ("delayed-retry-topic.max-retries: 3", "failure-strategy delayed-retry-topic"),
        ("delayed-retry-topic.timeout: 5", "failure-strategy delayed-retry-topic"),
    ],
)
def test_what_belongs_to_a_strategy_that_is_not_chosen_has_no_effect(with_lines, line, said):
    found = with_lines(line)
    (problem,) = found.problems
    assert (problem.line, problem.property, problem.rule) == (4, line.partition(":")[0], "no-effect")
    assert problem.severity == "warning"
    assert said in problem.message
    assert found.subscription is not None


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        ("commit-strategy: latest\nauto.commit.interval.ms: 5", False),
        ("commit-strategy: latest\nthrottled.unprocessed-record-max-age.ms: 5", True),
        ("failure-strategy: ask\ndead-letter-queue.topic: d", False),
        ("failure-strategy: fail\ndead-letter-queue.topic: d", False),
        ("failure-strategy: ignore\ndead-letter-queue.topic: d", True),
        ("failure-strategy: ask\ndead-letter-queue.limit: 5", True),
        ("failure-strategy: delayed-retry-topic\ndead-letter-queue.limit: 5", True),
        ("commit-strategy: checkpoint\ncommit-fence: transactional", True),
        ("commit-strategy: checkpoint", False),
        ("commit-strategy: ignore\ncursor: {type: TRIM_HORIZON}\ncommit-fence: none", True),
        ("commit-strategy: manual\ncommit-fence: none", False),
        ("commit-strategy: on-next-poll\ncommit-fence: none", False),
    ],
)
def test_what_has_an_effect_with_which_strategy(with_lines, lines, warned):
    found = with_lines(lines)
    assert [(each.rule, each.severity) for each in found.problems] == ([("no-effect", "warning")] if warned else [])


@pytest.mark.parametrize("lines", ["commit-strategy: trottled\nauto.commit.interval.ms: 5", f"{THROTTLED}cursor: 5"])
def test_nothing_is_concluded_from_a_strategy_that_is_wrong(with_lines, lines):
    assert [each.severity for each in with_lines(lines).problems] == ["error"]


@pytest.mark.parametrize(
    "lines", [f"{DEAD}dead-letter-queue.topic: a/b", f"{RETRY}delayed-retry-topic.topics: flights_retry_1"]
)
def test_no_default_takes_the_place_of_a_topic_that_is_wrong(reading, lines):
    text = LEAST.replace("[flights]", "[dead-letter-topic-flights, flights_retry_10000]")
    assert [each.rule for each in reading(text + lines).problems] == ["allowed"]


@pytest.mark.parametrize("strategy", ["throttled", "latest"])
def test_a_job_of_one_s_own_may_acknowledge(reading, strategy):
    text = LEAST.replace("output: out", "output: out, job: jobs/flights.py")
    assert reading(f"{text}commit-strategy: {strategy}\n").problems == ()


SELECTIONS = ("topics: [flights, {}]", "partitions: {{{}: [0]}}", "pattern: '.*_1|[^_]*'")


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    ("lines", "topic", "kind"),
    [
        (DEAD, "dead-letter-topic-flights", "dead-letter topic"),
        (f"{DEAD}dead-letter-queue.topic: dead", "dead", "dead-letter topic"),
        ("failure-strategy: ask\n", "dead-letter-topic-flights", "dead-letter topic"),
        (f"{RETRY}dead-letter-queue.topic: dead", "dead", "dead-letter topic"),
        (f"{RETRY}delayed-retry-topic.topics: [a_2, a_1]", "a_1", "retry topic"),
    ],
)
def test_what_failed_is_not_among_the_topics(reading, selection, lines, topic, kind):
    found = reading(LEAST.replace("topics: [flights]", selection.format(topic)) + lines)
    (problem,) = found.problems
    path = selection.partition(":")[0]
    assert (problem.line, problem.property, problem.value, problem.rule) == (1, path, topic, "own-topic")
    assert problem.message.startswith(f"{path} takes {topic}, the subscription's own {kind}")
    assert ("narrow it" if path == "pattern" else "leave it out") in problem.message
    assert found.subscription is None


@pytest.mark.parametrize(
    "lines",
    [
        "failure-strategy: ignore",
        RETRY,
        f"{DEAD}dead-letter-queue.topic: dead",
        f"{RETRY}delayed-retry-topic.topics: [flights_1]",
    ],
)
def test_another_s_dead_letters_may_be_read(reading, lines):
    text = LEAST.replace("[flights]", "[dead-letter-topic-flights, flights_retry, retry_10000]")
    assert reading(text + lines).problems == ()


@pytest.mark.parametrize(
    ("lines", "property_"),
    [
        (f"{RETRY}delayed-retry-topic.topics: [a_1, b_2]\ndead-letter-queue.topic: b_2", "dead-letter-queue.topic"),
        (f"{RETRY}dead-letter-queue.topic: flights_retry_20000", "dead-letter-queue.topic"),
    ],
)
def test_the_dead_letter_topic_is_no_retry_topic(with_lines, lines, property_):
    found = with_lines(lines)
    assert told(found) == [(3 + len(lines.splitlines()), property_, "own-topic")]
    assert found.subscription is None


@pytest.mark.parametrize(
    ("lines", "line", "property_", "unused"),
    [
        (f"{RETRY}delayed-retry-topic.timeout: 79999", 5, "delayed-retry-topic.timeout", ["flights_retry_50000"]),
        (f"{RETRY}delayed-retry-topic.timeout: 30000", 5, "delayed-retry-topic.timeout", ["flights_retry_50000"]),
        (
            f"{RETRY}delayed-retry-topic.max-retries: 1",
            5,
            "delayed-retry-topic.max-retries",
            ["flights_retry_20000", "flights_retry_50000"],
        ),
        (f"{RETRY}delayed-retry-topic.topics: [a_1, b_120000]", 5, "delayed-retry-topic.topics", ["b_120000"]),
        (f"{RETRY}delayed-retry-topic.topics: [a_1, b_119999]", 0, "", []),
        (f"{RETRY}delayed-retry-topic.max-retries: 30", 0, "", []),
        (f"{RETRY}delayed-retry-topic.max-retries: 1\ndelayed-retry-topic.timeout: x", 6, "", []),
    ],
)
def test_a_retry_topic_that_no_record_comes_to_has_no_effect(with_lines, lines, line, property_, unused):
    warned = [each for each in with_lines(lines).problems if each.severity == "warning"]
    assert [(each.line, each.property, each.value, each.rule) for each in warned] == [
        (line, property_, topic, "no-effect") for topic in unused
    ]


@pytest.mark.parametrize(
    ("consumer", "lines", "rules"),
    [
        ("", "", [("reads-only-new", "warning")]),
        (", auto.offset.reset: latest", "", [("reads-only-new", "warning")]),
        (", auto.offset.reset: earliest", "", []),
        (", auto.offset.reset: none", "", [("required", "error")]),
        (", auto.offset.reset: none", "cursor: {type: TRIM_HORIZON}", []),
        ("", "cursor: {type: LATEST}", [("reads-only-new", "warning")]),
        ("", "cursor: {type: AT_OFFSET, offset: 4}", []),
        ("", "cursor: {type: AT_OFFSET}", [("required", "error")]),
        ("", "cursor: {type: at_offset}", [("allowed", "error")]),
        (", auto.offset.reset: late", "", [("allowed", "error")]),
        (", auto.offset.reset: earliest", DEAD, [("written-again", "warning")]),
        (", auto.offset.reset: earliest", RETRY, [("written-again", "warning")]),
        (", auto.offset.reset: earliest", "failure-strategy: ignore", []),
    ],
)
def test_ignore_starts_each_run_from_its_cursor(reading, consumer, lines, rules):
    text = LEAST.replace("group.id: g", f"group.id: g{consumer}") + "commit-strategy: ignore\n" + lines
    found = reading(text)
    assert [(each.rule, each.severity) for each in found.problems] == rules


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        (f"{RETRY}commit-fence: none", True),
        (f"{DEAD}commit-fence: none", True),
        (f"{DEAD}commit-fence: transactional", False),
        ("failure-strategy: ask\ncommit-fence: none", False),
        (f"{DEAD}commit-strategy: checkpoint\ncommit-fence: none", False),
        (f"{DEAD}commit-fence: nine", False),
    ],
)
def test_without_a_fence_what_failed_comes_at_least_once(with_lines, lines, warned):
    rules = [problem.rule for problem in with_lines(lines).problems]
    assert ("at-least-once" in rules) is warned


def test_only_ignore_is_warned_of_latest(with_lines):
    for word in get_args(CommitStrategy):
        assert bool(with_lines(f"commit-strategy: {word}").problems) == (word == "ignore")


@pytest.mark.parametrize(
    ("lines", "property_"),
    [
        ("throttled.unprocessed-record-max-age.ms: 4999", "throttled.unprocessed-record-max-age.ms"),
        ("throttled.unprocessed-record-max-age.ms: 5000", None),
        ("throttled.unprocessed-record-max-age.ms: 0", None),
        ("throttled.unprocessed-record-max-age.ms: -1", None),
        ("auto.commit.interval.ms: 60001", "auto.commit.interval.ms"),
        ("auto.commit.interval.ms: 60000", None),
        (
            "auto.commit.interval.ms: 9\nthrottled.unprocessed-record-max-age.ms: 8",
            "throttled.unprocessed-record-max-age.ms",
        ),
    ],
)
def test_a_record_is_not_overdue_before_a_commit_is_due(with_lines, lines, property_):
    found = with_lines(THROTTLED + lines)
    expected = [(property_, "max-age", "warning")] if property_ else []
    assert [(each.property, each.rule, each.severity) for each in found.problems] == expected


def test_the_rules_hold_while_something_else_is_missing(reading):
    found = reading(f"topics: [dead-letter-topic-flights]\nconsumer:\nprocessing:\n{DEAD}auto.commit.interval.ms: 1\n")
    assert told(found) == [
        (1, "topics", "own-topic"),
        (2, "consumer.group.id", "required"),
        (3, "processing.output", "required"),
        (5, "auto.commit.interval.ms", "no-effect"),
    ]
