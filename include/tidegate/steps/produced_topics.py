"""Produced topics: those that failed records go to must be there before anything is processed."""

from tidegate.errors import WrongDefinitionError, place
from tidegate.ports import RecordSource
from tidegate.subscription import Subscription, TopicNames


def refuse_missing_topics(subscription: Subscription, source: RecordSource) -> None:
    """Raises WrongDefinitionError for a dead-letter or retry topic that isn't there, and says how to create it."""
    wanted = subscription.produced_topics
    if not wanted:
        return
    exist = {tp.topic for tp in source.partitions(TopicNames(wanted))}
    missing = [topic for topic in wanted if topic not in exist]
    if missing:
        where = place(subscription=subscription.name, group=subscription.consumer.group_id)
        raise WrongDefinitionError(
            f"{where}: {said_missing(subscription, missing[0])}"
            + (f"; nor are {', '.join(missing[1:])}" if missing[1:] else "")
            + ". Nothing is processed before"
        )


def said_missing(subscription: Subscription, topic: str) -> str:
    """That a topic which failed records go to isn't there, and how to create it."""
    what = "retry" if topic in subscription.retry_topics else "dead-letter"
    return (
        f"{what} topic {topic} isn't there, and producing never creates one: create it with `kafka-topics.sh "
        f"--bootstrap-server ... --create --topic {topic}`, or name another in the definition"
    )
