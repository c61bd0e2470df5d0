"""Where a subscription's group stands and where its logs end, wherever its positions are kept."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from chaos.tasks import Place, opened
from tidegate.model.commit_policy import PositionStore
from tidegate.model.offsets import TopicPartition
from tidegate_local.lag import PartitionLag, group_lag

Offsets = dict[TopicPartition, int]
_ANSWER_SECONDS = 60
_PAUSE_SECONDS = 0.2


def positions(place: Place) -> tuple[Offsets, Offsets]:
    """The committed offsets and the ends of the logs, markers included, of all that the subscription reads.

    Asks again while a broker that was just started loads the group. Raises KafkaException without an answer in time.
    """
    lags = kafka_lags(place)
    ends = {TopicPartition(each.topic, each.partition): each.end for each in lags}
    if place.kind.policy.store is PositionStore.LEDGER:
        with opened(place) as pipeline:
            return {at: kept.offset for at, kept in pipeline.offsets.committed(ends).items()}, ends
    return {TopicPartition(each.topic, each.partition): each.committed or 0 for each in lags}, ends


def kafka_lags(place: Place) -> list[PartitionLag]:
    """What Kafka has of the group. Raises KafkaException without an answer in time."""
    topics = (place.kind.topic, *place.kind.retry_topics)
    return [lag for topic in topics for lag in _asked(lambda: group_lag(place.bootstrap, place.kind.group, topic))]  # noqa: B023 (asked at once)


def _asked(ask: Callable[[], tuple[PartitionLag, ...]]) -> tuple[PartitionLag, ...]:
    until = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
