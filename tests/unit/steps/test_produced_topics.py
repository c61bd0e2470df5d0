"""What is said of the topics that `tidegate create-topics` makes."""

from typing import Any

import pytest
from world import World

from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.steps.produced_topics import missing_topics, said_use

DEAD = "dead-letter-topic-orders"
ALONE = ", for the answer dead-letter alone"
NAMED = {"dead_letter_queue": DeadLetterQueue(DEAD)}
RETRIES = {"failure_strategy": "delayed-retry-topic", "delayed_retry_topic": DelayedRetryTopic(("orders_retry_1",))}


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (RETRIES, f"{ALONE}: records whose retries fail are dropped without dead-letter-queue.topic"),
        ({**RETRIES, **NAMED}, ""),
        ({"failure_strategy": "fail"}, ALONE),
        ({"failure_strategy": "fail", **NAMED}, ""),
        ({"failure_strategy": "ask"}, ALONE),
        ({"failure_strategy": "ignore", **NAMED}, ALONE),
        ({"failure_strategy": "dead-letter-queue"}, ""),
    ],
)
def test_a_topic_that_only_an_answer_needs_is_called_so(definition: dict[str, Any], said: str) -> None:
    pipeline = World().pipeline(**definition)
    *retries, dead = missing_topics(pipeline.subscription, pipeline.source)
    assert (dead, said_use(pipeline.subscription, dead)) == (DEAD, said)
    assert [said_use(pipeline.subscription, each) for each in retries] == [""] * len(retries)
