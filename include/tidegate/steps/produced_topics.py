"""Produced topics: those that failed records go to must be there before anything is processed."""

from collections import Counter
from collections.abc import Sequence

from tidegate.model.errors import UnauthorizedError, WrongDefinitionError, location, message
from tidegate.model.subscription import Subscription, TopicNames
from tidegate.ports import RecordSource


def refuse_missing_topics(subscription: Subscription, source: RecordSource) -> None:
    """Raises WrongDefinitionError for a dead-letter or retry topic that isn't there, and says how to create it.

    Raises UnauthorizedError for one that the connection's user may not see, as `said_unproducible` does.
    """
    if what := said_unproducible(subscription, source):
        how = how_to_create(subscription.name)
        where = location(subscription=subscription.name)
        raise WrongDefinitionError(message(f"{what}: nothing is processed before", where, how))


def said_unproducible(subscription: Subscription, source: RecordSource) -> str | None:
    """Which topics aren't there that must be before anything is processed, in words; None if they are.

    Raises UnauthorizedError for one that the connection's user may not see: creating it wouldn't help.
    """
    missing = _missing(subscription.produced_topics, source)
    if not missing:
        return None
    if hidden := sorted(source.hidden(missing)):
        fact = f"the user of connection {subscription.connection} may not see {_named(subscription, hidden[0])}"
        where = location(subscription=subscription.name)
        raise UnauthorizedError(message(fact, where, "let it describe and write the topic"))
    return f"{_named(subscription, missing[0])} isn't there" + (
        f", nor are {', '.join(missing[1:])}" if missing[1:] else ""
    )


def missing_topics(subscription: Subscription, source: RecordSource) -> list[str]:
    """The retry topics that aren't there, and the dead-letter topic: by an answer any strategy may write to it."""
    return _missing((*subscription.retry_topics, subscription.dead_letter_queue.of(subscription.name)), source)


def said_use(subscription: Subscription, topic: str) -> str:
    """What of these topics is for a person's answer alone, in words behind its name; empty for the others."""
    if topic in subscription.produced_topics:
        return ""
    alone = ", for the answer dead-letter alone"
    if subscription.drops_failed_retries:
        return f"{alone}: records whose retries fail are dropped without dead-letter-queue.topic"
    return alone


def most_partitions(subscription: Subscription, source: RecordSource) -> int:
    """How many partitions the largest topic has that the subscription reads; 0 if there is none."""
    count = Counter(tp.topic for tp in source.partitions(subscription.topics))
    return max(count.values(), default=0)


def _missing(topics: Sequence[str], source: RecordSource) -> list[str]:
    if not topics:
        return []
    exist = {tp.topic for tp in source.partitions(TopicNames(tuple(topics)))}
    return [topic for topic in dict.fromkeys(topics) if topic not in exist]


def refuse_missing_answer(subscription: Subscription, topic: str, source: RecordSource) -> None:
    """Raises WrongDefinitionError where somebody answers that records go to a topic, and that isn't there."""
    if not source.partitions(TopicNames((topic,))):
        fact = f"{_named(subscription, topic)} isn't there: nothing was cleared"
        raise WrongDefinitionError(
            message(fact, location(subscription=subscription.name), how_to_create(subscription.name))
        )


def said_missing(subscription: Subscription, topic: str) -> str:
    """That a topic which failed records go to isn't there, and how to create it."""
    return (
        f"{_named(subscription, topic)} isn't there, or the connection's user may not see it: "
        f"{how_to_create(subscription.name)}"
    )


def _named(subscription: Subscription, topic: str) -> str:
    return f"{'retry' if topic in subscription.retry_topics else 'dead-letter'} topic {topic}"


def how_to_create(subscription: str) -> str:
    """What creates the topics that failed records of the subscription go to."""
    return (
        f"`tidegate create-topics {subscription}` creates what is missing (producing never does), or name another "
        "in the definition"
    )
