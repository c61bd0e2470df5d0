"""Produced topics: those that failed records go to must be there before anything is processed."""

from tidegate.model.errors import WrongDefinitionError, location, message
from tidegate.model.subscription import Subscription, TopicNames
from tidegate.ports import RecordSource


def refuse_missing_topics(subscription: Subscription, source: RecordSource) -> None:
    """Raises WrongDefinitionError for a dead-letter or retry topic that isn't there, and says how to create it."""
    wanted = subscription.produced_topics
    if not wanted:
        return
    exist = {tp.topic for tp in source.partitions(TopicNames(wanted))}
    missing = [topic for topic in wanted if topic not in exist]
    if missing:
        what = f"{_named(subscription, missing[0])} isn't there" + (
            f", nor are {', '.join(missing[1:])}" if missing[1:] else ""
        )
        how = _how_to_create(missing[0])
        where = location(subscription=subscription.name)
        raise WrongDefinitionError(message(f"{what}: nothing is processed before", where, how))


def refuse_missing_answer(subscription: Subscription, topic: str, source: RecordSource) -> None:
    """Raises WrongDefinitionError where somebody answers that records go to a topic, and that isn't there."""
    if not source.partitions(TopicNames((topic,))):
        fact = f"{_named(subscription, topic)} isn't there: nothing was cleared"
        raise WrongDefinitionError(message(fact, location(subscription=subscription.name), _how_to_create(topic)))


def said_missing(subscription: Subscription, topic: str) -> str:
    """That a topic which failed records go to isn't there, and how to create it."""
    return f"{_named(subscription, topic)} isn't there: {_how_to_create(topic)}"


def _named(subscription: Subscription, topic: str) -> str:
    return f"{'retry' if topic in subscription.retry_topics else 'dead-letter'} topic {topic}"


def _how_to_create(topic: str) -> str:
    return (
        f"create it with `kafka-topics.sh --bootstrap-server ... --create --topic {topic}` (producing never creates "
        "one), or name another in the definition"
    )
