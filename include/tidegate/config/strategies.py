"""The rules between the strategies of a definition, the properties that belong to them, and the topics it reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tidegate.config import consumer_properties
from tidegate.config.assign_seek import ASSIGN_SEEK, is_given
from tidegate.config.findings import Findings
from tidegate.config.property_table import TOP, fields, with_defaults
from tidegate.config.property_types import either
from tidegate.config.sections import Values
from tidegate.model.commit_policy import COMMIT_POLICIES, PositionStore, Progress
from tidegate.model.failure_policy import FAILURE_POLICIES, failure_policy
from tidegate.model.subscription import (
    DeadLetterQueue,
    DelayedRetryTopic,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)

COMMIT = "commit-strategy"
FAILURE = "failure-strategy"
INTERVAL = "auto.commit.interval.ms"
MAX_AGE = "throttled.unprocessed-record-max-age.ms"
DEAD_LETTERS = "dead-letter-queue.topic"
RETRIES = "delayed-retry-topic.topics"
MOST_RETRIES = "delayed-retry-topic.max-retries"
TIMEOUT = "delayed-retry-topic.timeout"
FENCE = "commit-fence"
RESET = "consumer.auto.offset.reset"

_UNFENCED = {
    PositionStore.NONE: "nothing is committed",
    PositionStore.LEDGER: "positions are kept in the ledger, not in Kafka",
}


@dataclass(frozen=True)
class _Definition:
    """What the rules look at: the top level's values with their defaults, those that it gives, and what is wrong."""

    name: str
    top: Mapping[str, Any]
    given: Values
    faulty: frozenset[str]
    findings: Findings

    def warn(self, path: str, message: str, rule: str) -> None:
        """Note a warning."""
        self.findings.add(path, message, rule, self.top.get(path), "warning")


def dead_letter_queue(top: Mapping[str, Any]) -> DeadLetterQueue:
    """The dead-letter queue of a definition; `top` has a value or None for each property."""
    return DeadLetterQueue(**_set("dead_letter_queue", top))


def delayed_retry_topic(top: Mapping[str, Any]) -> DelayedRetryTopic:
    """The retry topics of a definition; `top` has a value or None for each property."""
    return DelayedRetryTopic(**_set("delayed_retry_topic", top))


def check(name: str, good: Mapping[str, Values], topics: TopicSelection | None, findings: Findings) -> None:
    """All rules; none over a value that is wrong by itself. `name` is the subscription's."""
    top = with_defaults("", good[""])
    definition = _Definition(name, top, good[""], findings.faulty, findings)
    if COMMIT not in definition.faulty:
        _check_ignore(definition, dict(_starts(good, topics)))
        _check_age(definition)
    _check_effects(definition)
    if not definition.faulty & {FAILURE, DEAD_LETTERS, RETRIES}:
        _check_topics(definition, topics)
        _check_retries(definition)
        _check_fence(definition)


def _check_effects(definition: _Definition) -> None:
    """A property of a strategy that isn't chosen."""
    for path, known in TOP.items():
        if path not in definition.given or known.only_with is None:
            continue
        property_, words = known.only_with
        chosen = definition.top[property_]
        is_used = chosen in words or (known.with_installed and chosen not in FAILURE_POLICIES)
        if not is_used and property_ not in definition.faulty:
            text = (
                f"{path} has no effect: it belongs to {property_} {either(words)}, and {property_} is {chosen}: "
                "choose that, or remove it"
            )
            definition.warn(path, text, "no-effect")
    commit = definition.top[COMMIT]
    if FENCE in definition.given and COMMIT not in definition.faulty:
        why = _UNFENCED.get(COMMIT_POLICIES[commit].store)
        if why:
            definition.warn(FENCE, f"{FENCE} has no effect: with {COMMIT} {commit} {why}: remove it", "no-effect")


def _starts(good: Mapping[str, Values], topics: TopicSelection | None) -> Iterator[tuple[str, str]]:
    """Where partitions start on first contact, each word with the property that says it."""
    chosen = topics if isinstance(topics, TopicPartitions) else TopicPartitions({})
    if any(own.type == "LATEST" for each in chosen.cursors.values() for own in each.values()):
        yield "-1", ASSIGN_SEEK
    if chosen.cursors and chosen.all_have_cursors:
        return
    if "type" in good["cursor"]:
        yield good["cursor"]["type"], "cursor.type"
    else:
        yield str(consumer_properties.effective(good["consumer"])["auto.offset.reset"]), RESET


def _check_ignore(definition: _Definition, starts: Mapping[str, str]) -> None:
    """Without a position that is kept, every run is a first contact."""
    if (
        COMMIT_POLICIES[definition.top[COMMIT]].store is not PositionStore.NONE
        or {RESET, "cursor", "cursor.type", ASSIGN_SEEK} & definition.faulty
    ):
        return
    at_end = next((start for start in starts if start in ("latest", "LATEST", "-1")), None)
    if "none" in starts:
        text = f"{RESET} none fails every run: {COMMIT} ignore keeps no position; write earliest, or give a cursor"
        definition.findings.add(RESET, text, "required", "none")
    elif at_end is not None:
        text = (
            f"{COMMIT} ignore starts each run where {starts[at_end]} ({at_end}) says, at the end: a run reads only "
            "what arrives while it waits; start at earliest, or give a cursor of another type"
        )
        definition.warn(COMMIT, text, "reads-only-new")
    elif failure_policy(definition.top[FAILURE]).produces and FAILURE not in definition.faulty:
        text = (
            f"{FAILURE} {definition.top[FAILURE]} writes the same records again with each run, because {COMMIT} ignore "
            "starts each from its cursor: choose fail or ignore, or another commit strategy"
        )
        definition.warn(FAILURE, text, "written-again")


def _check_age(definition: _Definition) -> None:
    """A record must not be overdue before the commit that counts it is due."""
    interval, age = definition.top[INTERVAL], definition.top[MAX_AGE]
    if (
        COMMIT_POLICIES[definition.top[COMMIT]].progress is not Progress.CONTIGUOUS_ACKS
        or {INTERVAL, MAX_AGE} & definition.faulty
        or not 0 < age < interval
    ):
        return
    text = (
        f"{MAX_AGE} ({age}) should be at least as long as {INTERVAL} ({interval}): a record would be overdue before "
        "a commit is due"
    )
    definition.warn(MAX_AGE if MAX_AGE in definition.given else INTERVAL, text, "max-age")


def _check_topics(definition: _Definition, topics: TopicSelection | None) -> None:
    """Nobody reads their own dead letters, and retry topics are read when their records are due, not before."""
    add, failure = definition.findings.add, definition.top[FAILURE]
    dead = dead_letter_queue(definition.top).written_by(definition.name, failure)
    retries = delayed_retry_topic(definition.top).used_by(definition.name, failure)
    path = {TopicNames: "topics", TopicPattern: "pattern", TopicPartitions: "partitions"}.get(type(topics), "")
    path = ASSIGN_SEEK if path == "partitions" and is_given(definition.given.get(ASSIGN_SEEK)) else path
    leave = "narrow it" if path == "pattern" else "leave it out"
    if dead in retries:
        named = DEAD_LETTERS if DEAD_LETTERS in definition.given else RETRIES
        text = (
            f"{named}: {dead} is a retry topic and the dead-letter topic, too: give the dead letters one of their own"
        )
        add(named, text, "own-topic", dead)
    elif dead is not None and topics is not None and topics.takes(dead):
        text = (
            f"{path} takes {dead}, the subscription's own dead-letter topic, so that it would read its own dead "
            f"letters: {leave}, or name another in {DEAD_LETTERS}"
        )
        add(path, text, "own-topic", dead)
    for retry in retries:
        if topics is not None and topics.takes(retry):
            text = (
                f"{path} takes {retry}, the subscription's own retry topic, which it reads by itself when its records "
                f"are due: {leave}, or name others in {RETRIES}"
            )
            add(path, text, "own-topic", retry)


def _check_retries(definition: _Definition) -> None:
    """Retry topics that no record comes to."""
    if not failure_policy(definition.top[FAILURE]).uses_retry_topics or {MOST_RETRIES, TIMEOUT} & definition.faulty:
        return
    retry = delayed_retry_topic(definition.top)
    topics = retry.used_by(definition.name, definition.top[FAILURE])
    for topic, bound, why in _unused(topics, retry):
        path = RETRIES if RETRIES in definition.given else bound
        text = f"{topic} has no effect: {why}: raise that, or remove the topic"
        definition.findings.add(path, text, "no-effect", topic, "warning")


def _check_fence(definition: _Definition) -> None:
    """Records that go to a topic come there once because of the transaction that commits with them."""
    if {FENCE, COMMIT} & definition.faulty or COMMIT_POLICIES[definition.top[COMMIT]].store in _UNFENCED:
        return
    failure = definition.top[FAILURE]
    if definition.top[FENCE] == "none" and failure_policy(failure).produces:
        text = (
            f"with {FENCE} none, {failure} writes a record again where the commit behind it fails: the topic, and what "
            f"reads it, gets it at least once; take {FENCE} transactional where the cluster can"
        )
        definition.warn(FENCE, text, "at-least-once")


def _unused(topics: tuple[str, ...], retry: DelayedRetryTopic) -> Iterator[tuple[str, str, str]]:
    """The topics that no record comes to, each with the property that keeps it from there, and how."""
    due = accumulate(int(topic.rpartition("_")[2]) for topic in topics)
    for number, (topic, earliest_ms) in enumerate(zip(topics, due, strict=True), 1):
        if earliest_ms > retry.timeout_ms:
            why = f"a record would be due there {earliest_ms} ms after its first processing at the earliest, and "
            yield topic, TIMEOUT, f"{why}{TIMEOUT} is {retry.timeout_ms}"
        elif 0 < retry.max_retries < number:
            yield topic, MOST_RETRIES, f"{MOST_RETRIES} is {retry.max_retries}"


def _set(part: str, top: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in fields(part, "", top).items() if value is not None}
