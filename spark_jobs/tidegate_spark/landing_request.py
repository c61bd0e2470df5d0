"""The order that a landing job is handed, and what it means to Spark's Kafka source: format 1."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = 1

_KAFKA = "kafka."
_TASK_RECORDS = 500_000  # offsets that one task reads: what it lands is one file


class LandingRequestError(Exception):
    """The order can't be followed: give this job one of its own version. Trying again won't help."""


@dataclass(frozen=True)
class OrderedRange:
    """The offsets `[start, end)` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class LandingRequest:
    """Which ranges to land, in which folder, and how long an executor waits for the broker, in milliseconds."""

    subscription: str
    batch_id: str
    folder: str
    ranges: tuple[OrderedRange, ...]
    poll_timeout_ms: int


def parse_landing_request(text: str, uri: str) -> LandingRequest:
    """The order that `text`, found at `uri`, holds. Raises OrderError naming what is wrong with it."""
    try:
        found: Any = json.loads(text)
        if found["format"] != FORMAT:
            raise LandingRequestError(f"{uri} has format {found['format']}; this job follows format {FORMAT}")
        return LandingRequest(
            subscription=found["subscription"],
            batch_id=found["batch_id"],
            folder=found["folder"],
            ranges=tuple(OrderedRange(**one) for one in found["ranges"]),
            poll_timeout_ms=found["poll_timeout_ms"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LandingRequestError(f"{uri} is no order to land a batch: {error!r}") from None


def source_options(order: LandingRequest, client: Mapping[str, str]) -> dict[str, str]:
    """The options of `spark.read.format("kafka")` that read exactly the order's ranges.

    `client` holds the Kafka client's properties under their Java names. Offsets that are gone fail the read; those
    that compaction, aborted transactions and markers leave empty don't.
    """
    return {
        "assign": _by_topic(order.ranges, lambda ranges: [one.partition for one in ranges]),
        "startingOffsets": _by_topic(order.ranges, lambda ranges: {str(one.partition): one.start for one in ranges}),
        "endingOffsets": _by_topic(order.ranges, lambda ranges: {str(one.partition): one.end for one in ranges}),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxRecordsPerPartition": str(_TASK_RECORDS),
        "kafkaConsumer.pollTimeoutMs": str(order.poll_timeout_ms),
        **{f"{_KAFKA}{name}": value for name, value in client.items()},
    }


def _by_topic(ranges: Sequence[OrderedRange], said: Any) -> str:
    topics = dict.fromkeys(one.topic for one in ranges)
    return json.dumps({topic: said([one for one in ranges if one.topic == topic]) for topic in topics})
