"""What Airflow's pages say of a subscription: the DAG's text and its tags."""

from collections.abc import Mapping
from pathlib import Path

from tidegate.config.settings import Settings, redact
from tidegate.model.commit_policy import CommitPoint, CommitPolicy, PositionStore, Progress
from tidegate.model.subscription import (
    HttpEndpoint,
    Processing,
    ProcessingKind,
    Subscription,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)
from tidegate.runtime.definitions import is_stored

_LONGEST_TAG = 100  # Airflow's limit; a topic's name may have 249 characters

_BEGIN = "**plan** freezes its offsets, **land** stores the records as received, "
_PUBLISH = "**process** {processes}, **publish** publishes the output"
_COMMIT = "**process** {processes}, **commit** publishes the output and then "
_PROCESSES: Mapping[ProcessingKind, str] = {
    "spark": "runs the Spark job",
    "http": "sends a request for each record",
}
_MOVES_NOTHING = "A run that fails moves no offset; the next one takes the same batch again."
_TAKEN_AGAIN = "A run that fails is followed by one that takes the same batch again."
_STANDS_STILL = "every run fails until `tidegate clear {name}` or the DAG `tidegate_clear` says how to go on"
_FAILURES: Mapping[str, str] = {
    "fail": f"the subscription stops: {_STANDS_STILL}.",
    "ignore": "nothing of it is published, and the subscription goes on after it.",
    "dead-letter-queue": "its records go to the dead-letter topic, and the subscription goes on after it; past "
    f"`dead-letter-queue.limit` it stops: {_STANDS_STILL}.",
    "delayed-retry-topic": "its records go to a retry topic, from which they are read again later, and the "
    "subscription goes on after it.",
    "ask": "the task **ask** asks a person (*Required Actions*): deliver it again, dead-letter, skip or stop. The run "
    "waits until somebody answers there, by `tidegate clear {name} --answer ...` or by the DAG `tidegate_clear`.",
}

_OWN = "your own strategy `{strategy}` decides what happens to it."


def tags(subscription: Subscription) -> list[str]:
    """`tidegate`, and the topics by name or pattern."""
    match subscription.topics:
        case TopicNames(names):
            topics = list(names)
        case TopicPartitions(partitions):
            topics = list(partitions)
        case TopicPattern(pattern):
            topics = [pattern]
    return ["tidegate", *(topic for topic in topics if len(topic) <= _LONGEST_TAG)]


def document(subscription: Subscription, path: Path, settings: Settings) -> str:
    """The DAG's text, in Markdown: what it reads, what it does with it, and where its definition is."""
    consumer, processing = subscription.consumer, subscription.processing
    rows = {
        "topics": _topics(subscription.topics),
        "connection": subscription.connection,
        "consumer.group.id": consumer.group_id,
        "consumer.max.poll.records": consumer.max_poll_records,
        "members": subscription.members,
        "schedule": subscription.schedule or "only when triggered",
        **(_spark(processing) if processing.endpoint is None else _http(processing.endpoint)),
        "processing.format": processing.format,
        "processing.output": redact(processing.output),
        "commit-strategy": subscription.commit_strategy,
        "failure-strategy": subscription.failure_strategy,
        "max-retries": subscription.max_retries,
    }
    table = "\n".join(f"| {name} | {_code(value)} |" for name, value in rows.items())
    return (
        f"{subscription.description}\n\n"
        f"A run takes one batch: {_story(subscription)} A run that finds nothing to read is skipped.\n\n"
        f"| property | value |\n|---|---|\n{table}\n\n"
        f"{_place(subscription.name, path, settings)}\n"
    )


def _spark(processing: Processing) -> dict[str, object]:
    return {
        "processing.connection": processing.connection,
        "processing.transform": processing.transform or "none: records are written as they came",
        "processing.partition-by": ", ".join(processing.partition_by) or "none",
    }


def _http(endpoint: HttpEndpoint) -> dict[str, object]:
    """Of the URI not the path, which may be a secret."""
    return {
        "processing.uri": f"{endpoint.method} {endpoint.place}/...",
        "processing.connection": endpoint.connection or "none: no credentials are sent",
        "processing.concurrency-factor": endpoint.concurrency,
    }


def _story(subscription: Subscription) -> str:
    """The tasks of a run as the commit strategy orders them, and what the failure strategy does at the limit."""
    steps = _BEGIN + _steps(subscription.commit_policy)
    failed = _FAILURES.get(subscription.failure_strategy, _OWN)
    limit = f"A batch that failed in {subscription.max_retries + 1} deliveries: {failed}"
    told = {
        "{name}": subscription.name,
        "{strategy}": subscription.failure_strategy,
        "{processes}": _PROCESSES[subscription.processing.kind],
    }
    story = f"{steps}\n\n{limit}"
    for mark, text in told.items():
        story = story.replace(mark, text)
    return story


def _steps(policy: CommitPolicy) -> str:
    """The tasks behind land."""
    match policy.commit_at:
        case CommitPoint.LANDED:
            return (
                f"**commit** commits its offsets at once, {_PUBLISH}. A run that fails before commit moves "
                "no offset; whatever fails, the next one takes the same batch again, from its landing."
            )
        case CommitPoint.NEXT_PLAN:
            return f"{_PUBLISH}. Its offsets are committed by the next run, before that one plans. {_TAKEN_AGAIN}"
        case CommitPoint.MANUAL:
            return (
                f"{_PUBLISH}. Its offsets are committed by `tidegate commit {{name}}` or the DAG `tidegate_commit`, "
                f"and until then no run takes another batch. {_MOVES_NOTHING}"
            )
        case CommitPoint.PUBLISHED:
            return f"{_COMMIT}{_commit(policy)}"


def _commit(policy: CommitPolicy) -> str:
    """What commit does once the output is published."""
    if policy.store is PositionStore.NONE:
        return "is done with it: no offset is ever committed."
    match policy.progress:
        case Progress.WHOLE_BATCH:
            return f"commits the offsets. {_MOVES_NOTHING}"
        case Progress.CONTIGUOUS_ACKS:
            return f"commits the offsets of what the job has acknowledged without a gap. {_TAKEN_AGAIN}"
        case Progress.HIGHEST_ACK:
            return f"commits the offsets behind the last record that the job has acknowledged. {_TAKEN_AGAIN}"


def _topics(topics: TopicSelection) -> str:
    match topics:
        case TopicNames(names):
            return ", ".join(names)
        case TopicPattern(pattern):
            return f"pattern {pattern}"
        case TopicPartitions(partitions):
            return ", ".join(f"{topic} {list(numbers)}" for topic, numbers in partitions.items())


def _place(name: str, path: Path, settings: Settings) -> str:
    """Where to read and change the definition."""
    if is_stored(path):
        return f"Defined by REST: {_code(f'/tidegate/subscriptions/{name}')} has it."
    return f"Defined in {_code(path.relative_to(settings.home) if path.is_relative_to(settings.home) else path)}."


def _code(value: object) -> str:
    text = str(value).replace("`", "'").replace("|", "\\|")  # what would end the code or the table's cell
    return f"`{text}`"
