"""The subscription of a simulation, with every value that it doesn't say at its default."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from tidegate.config.reading import load
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.failure_policy import FailureStrategy, failure_policy
from tidegate.model.subscription import CommitFence, DeadLetterQueue, DelayedRetryTopic, Subscription

MANY = 1000
"""Retries of a subscription that never comes to its limit."""

DEAD = "dead"
"""Where a record goes that has no retry left."""

AT_ONCE = DelayedRetryTopic(("orders_retry_0", "orders_again_0"), timeout_ms=2**60)
LATER = DelayedRetryTopic(("orders_retry_100000", "orders_again_150000"), timeout_ms=2**60)
_DEFINITION = """
topics: [orders]
connection: kafka_default
consumer:
  group.id: orders-lake
  auto.offset.reset: earliest
poll-timeout.ms: 200
commit-timeout.ms: 50
on-data-loss: fail
max-retries: 1000
processing:
  connection: spark_default
  output: data/lake/orders
"""


def subscription(
    members: int = 1,
    max_poll_records: int = 500,
    commit_fence: CommitFence = "transactional",
    *,
    commit_strategy: CommitStrategy = "after-processing",
    failure_strategy: FailureStrategy = "fail",
    max_retries: int = MANY,
    retries: DelayedRetryTopic = AT_ONCE,
) -> Subscription:
    """The subscription `orders` of the topic of that name."""
    given = _default()
    if failure_policy(failure_strategy).uses_retry_topics:
        given = replace(given, delayed_retry_topic=retries, dead_letter_queue=DeadLetterQueue(DEAD))
    return replace(
        given,
        members=members,
        consumer=replace(given.consumer, max_poll_records=max_poll_records),
        commit_fence=commit_fence,
        commit_strategy=commit_strategy,
        failure_strategy=failure_strategy,
        max_retries=max_retries,
        auto_commit_interval_ms=0,  # whenever the job is looked at
    )


@cache
def _default() -> Subscription:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.yaml"
        path.write_text(_DEFINITION, encoding="utf-8")
        return load(path)
