"""The dead letters of one subscription, joined to the real Kafka and ledger: to list them, to see one, to redrive."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidegate.config.settings import Settings
from tidegate.dead_letters.letter import DeadLetterFilter
from tidegate.dead_letters.listing import Found, Listing, find, list_letters, said_missing
from tidegate.dead_letters.lock import RedriveLock, redriver_of
from tidegate.dead_letters.ports import DeadLetterTopic, RedriveLedger
from tidegate.dead_letters.redriver import Redriver, RedriveRequest, Survey, survey
from tidegate.dead_letters.superseded import Superseded
from tidegate.kafka.dead_letter_topic import KafkaDeadLetterTopic
from tidegate.kafka.offsets import KafkaOffsets
from tidegate.kafka.source import KafkaSource
from tidegate.kafka.transaction import TransactionalFence
from tidegate.ledger.generations import SqlGenerations
from tidegate.ledger.redriven import SqlRedrives
from tidegate.ledger.totals import Total, subscription_totals
from tidegate.model.batch import Outcome
from tidegate.model.errors import WrongDefinitionError, location, message
from tidegate.model.failure_policy import DeadLetterUse
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock, Connections, Generations
from tidegate.runtime.clock import SystemClock
from tidegate.security.client import kafka_client

_LEAST_SECONDS = 60.0  # for a transaction with a chunk of large records


@dataclass(frozen=True, slots=True)
class OpenDeadLetters:
    """The dead-letter topic of a subscription, what the ledger knows of it, and the turn to redrive it.

    `generations` tell which batches were made again since, `dead_lettered` how many records the ledger counts that
    became dead letters.
    """

    subscription: Subscription
    topic: DeadLetterTopic
    ledger: RedriveLedger
    turns: RedriveLock
    clock: Clock
    generations: Generations
    dead_lettered: Callable[[], int] = lambda: 0

    def list(self, wanted: DeadLetterFilter, limit: int) -> Listing:
        """See `listing.list_letters`."""
        found = list_letters(wanted, limit, self.topic, self.ledger, self._superseded())
        if found.is_there and wanted != DeadLetterFilter():
            return found
        return replace(found, dead_lettered=self.dead_lettered())

    def find(self, partition: int, offset: int) -> Found:
        """See `listing.find`."""
        return find(self.topic, self.ledger, self._superseded(), partition, offset)

    def survey(self, order: RedriveRequest) -> Survey:
        """See `redriver.survey`. WrongDefinitionError too where the topic isn't there, and dead letters are known."""
        found = survey(order, self.topic, self.ledger, self._superseded())
        if not found.is_there and (count := self.dead_lettered()):
            name = self.subscription.name
            remedy = (
                f"if it is there, let the connection's user see it; `tidegate create-topics {name}` creates it anew, "
                "without them"
            )
            said = said_missing(self.topic.name, count)
            raise WrongDefinitionError(message(said, location(subscription=name), remedy))
        return found

    def redriver(self, order: RedriveRequest) -> Redriver:
        """Whoever carries out the order."""
        return Redriver(order, self.topic, self.ledger, self.turns, self.clock)

    def _superseded(self) -> Superseded:
        return Superseded(self.generations.reprocessed(self.subscription.name))


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
        turns = RedriveLock(offsets, topic)
        redrives, generations = SqlRedrives(settings.ledger), SqlGenerations(settings.ledger)
        yield OpenDeadLetters(
            subscription,
            letters,
            redrives,
            turns,
            SystemClock(),
            generations,
            lambda: _dead_lettered(subscription, settings),
        )
    finally:
        source.close()
        offsets.close()


def _dead_lettered(subscription: Subscription, settings: Settings) -> int:
    """The records of batches that were dead-lettered, and those that the others rejected if they go there too."""
    counted = subscription_totals(settings.ledger, subscription.name)
    records = counted.get((Total.RECORDS, Outcome.DEAD_LETTERED.value), 0)
    if subscription.failure_policy.dead_letters is DeadLetterUse.ALWAYS:
        records += counted.get((Total.REJECTED, ""), 0)
    return int(records)
