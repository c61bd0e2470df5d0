"""The dead letters of one subscription, joined to the real Kafka and ledger: to list them, to see one, to redrive."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidegate.config.settings import Settings
from tidegate.dead_letters.letter import DeadLetter, DeadLetterFilter, RedriveStatus
from tidegate.dead_letters.listing import Listing, find, list_letters
from tidegate.dead_letters.lock import FencedRedriveLock, redriver_of
from tidegate.dead_letters.ports import DeadLetterTopic, RedriveLedger, RedriveLock
from tidegate.dead_letters.redriver import Redriver, RedriveRequest, Survey, survey
from tidegate.kafka.dead_letter_topic import KafkaDeadLetterTopic
from tidegate.kafka.offsets import KafkaOffsets
from tidegate.kafka.source import KafkaSource
from tidegate.kafka.transaction import TransactionalFence
from tidegate.ledger.redriven import SqlRedrives
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock, Connections
from tidegate.runtime.clock import SystemClock
from tidegate.security.client import kafka_client

_LEAST_SECONDS = 60.0  # for a transaction with a chunk of large records


@dataclass(frozen=True, slots=True)
class OpenDeadLetters:
    """The dead-letter topic of a subscription, what the ledger knows of it, and the turn to redrive it."""

    subscription: Subscription
    topic: DeadLetterTopic
    ledger: RedriveLedger
    turns: RedriveLock
    clock: Clock

    def list(self, wanted: DeadLetterFilter, limit: int) -> Listing:
        """See `listing.list_letters`."""
        return list_letters(wanted, limit, self.topic, self.ledger)

    def find(self, partition: int, offset: int) -> tuple[DeadLetter, RedriveStatus | None]:
        """See `listing.find`."""
        return find(self.topic, self.ledger, partition, offset)

    def survey(self, order: RedriveRequest) -> Survey:
        """See `redriver.survey`."""
        return survey(order, self.topic, self.ledger)

    def redriver(self, order: RedriveRequest) -> Redriver:
        """Whoever carries out the order."""
        return Redriver(order, self.topic, self.ledger, self.turns, self.clock)


@contextmanager
def open_dead_letters(
    subscription: Subscription, settings: Settings, connections: Connections
) -> Iterator[OpenDeadLetters]:
    """Join to the real systems; nothing is connected before it is used, and all is closed after."""
    client = {**kafka_client(connections.get(subscription.connection)), **subscription.consumer.librdkafka}
    timeout = max(_LEAST_SECONDS, subscription.commit_timeout_ms / 1000)
    topic = subscription.dead_letter_queue.of(subscription.name)
    source = KafkaSource(client, isolation_level="read_committed", timeout=subscription.poll_timeout_ms / 1000)
    offsets = KafkaOffsets(
        client,
        group=redriver_of(topic),
        poll_timeout=timeout,
        commit_timeout=timeout,
        take_fence=TransactionalFence,
    )
    try:
        letters = KafkaDeadLetterTopic(source, topic, timeout)
        turns = FencedRedriveLock(offsets, topic)
        yield OpenDeadLetters(subscription, letters, SqlRedrives(settings.ledger), turns, SystemClock())
    finally:
        source.close()
        offsets.close()
