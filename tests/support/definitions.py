"""Subscriptions for tests, with every value that a test doesn't say at its default."""

from dataclasses import replace
from typing import Any

from tidegate.model.subscription import ConsumerProperties, Processing, Subscription, TopicNames

CONSUMER = ConsumerProperties(
    group_id="orders-lake",
    max_poll_records=500,
    max_poll_interval_ms=300_000,
    auto_offset_reset="earliest",
    isolation_level="read_committed",
    librdkafka={},
)

SUBSCRIPTION = Subscription(
    name="orders",
    description="",
    schedule=None,
    connection="kafka_default",
    topics=TopicNames(("orders",)),
    members=1,
    consumer=CONSUMER,
    poll_timeout_ms=1000,
    commit_timeout_ms=5000,
    commit_strategy="after-processing",
    failure_strategy="fail",
    commit_fence="transactional",
    on_data_loss="fail",
    cursor=None,
    max_retries=2,
    retry_delay_ms=1000,
    row_accounting="strict",
    landing_engine="python",
    processing=Processing(output="data/lake/orders", connection="spark_default", transform=None, partition_by=()),
)


def subscription(*, consumer: dict[str, Any] | None = None, **values: Any) -> Subscription:
    """`subscription(members=2, consumer={"max_poll_records": 10})`."""
    return replace(SUBSCRIPTION, consumer=replace(CONSUMER, **(consumer or {})), **values)
