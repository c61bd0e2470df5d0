"""What Airflow's pages say of a subscription: the DAG's text and its tags."""

from pathlib import Path

from tidegate.settings import Settings, redact
from tidegate.subscription import Subscription, TopicNames, TopicPartitions, TopicPattern, TopicSelection

_LONGEST_TAG = 100  # Airflow's limit; a topic's name may have 249 characters


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
    shown = path.relative_to(settings.home) if path.is_relative_to(settings.home) else path
    rows = {
        "topics": _topics(subscription.topics),
        "connection": subscription.connection,
        "consumer.group.id": consumer.group_id,
        "consumer.max.poll.records": consumer.max_poll_records,
        "members": subscription.members,
        "schedule": subscription.schedule or "only when triggered",
        "processing.connection": processing.connection,
        "processing.transform": processing.transform or "none: records are written as they came",
        "processing.output": redact(processing.output),
        "processing.partition-by": ", ".join(processing.partition_by) or "none",
        "commit-strategy": subscription.commit_strategy,
        "failure-strategy": subscription.failure_strategy,
        "max-retries": subscription.max_retries,
    }
    table = "\n".join(f"| {name} | {_code(value)} |" for name, value in rows.items())
    return (
        f"{subscription.description}\n\n"
        "A run takes one batch: **plan** freezes its offsets, **land** stores the records as received, **process** "
        "runs the Spark job, **commit** publishes the output and then commits the offsets. A run that fails moves "
        "no offset; the next one takes the same batch again. A run that finds nothing to read is skipped.\n\n"
        f"| property | value |\n|---|---|\n{table}\n\n"
        f"Defined in {_code(shown)}.\n"
    )


def _topics(topics: TopicSelection) -> str:
    match topics:
        case TopicNames(names):
            return ", ".join(names)
        case TopicPattern(pattern):
            return f"pattern {pattern}"
        case TopicPartitions(partitions):
            return ", ".join(f"{topic} {list(numbers)}" for topic, numbers in partitions.items())


def _code(value: object) -> str:
    text = str(value).replace("`", "'").replace("|", "\\|")  # what would end the code or the table's cell
    return f"`{text}`"
