"""A subscription as a client of Queue-Over-Http POSTs it."""

from typing import Any

EXAMPLE: dict[str, Any] = {  # the reference's own
    "id": "my-first-consumer",
    "group": {"id": "consumers"},
    "broker": "Kafka",
    "topics": [{"name": "slack.test", "config": {"concurrencyFactor": 10, "autoCommitPeriodMs": 100}}],
    "subscriptionMethod": {
        "type": "http",
        "delayOnErrorMs": 1000,
        "retryBeforeCommit": 10,
        "uri": "https://hooks.slack.test/T0/B0",
        "additionalHeaders": {"Content-Type": "application/json"},
    },
}
