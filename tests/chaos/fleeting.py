"""A topic that is deleted and created again, or gets more partitions, while records flow into it."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from chaos.draws import Target
from chaos.fault import Fault, nothing
from chaos.positions import positions
from chaos.producing import Numbers, Producing
from chaos.tasks import Place, opened
from tidegate.model.errors import UnavailableError

_ANSWER_SECONDS = 60
_PAUSE_SECONDS = 0.1
_FEWEST, _MOST = 2, 6


class Fleeting:
    """The topic of one subscription, and its producers: others for each topic of that name, and after it has grown.

    Records that a topic took along when it was deleted are lost by Kafka, unless the group was committed past them.
    """

    def __init__(self, place: Place, *, rate: int, seed: int) -> None:
        self.numbers = Numbers()
        self._place = place
        self._rate = rate
        self._seed = seed
        self._draw = Random(f"{seed} partitions")  # noqa: S311 (a seed is to be repeated)
        self._turns = itertools.count()
        self._partitions = 0
        self._admin = AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 0})
        self._stack = ExitStack()
        self._producing = self._producers()

    @property
    def faults(self) -> dict[Target, Fault]:
        """It is away for a while, or grows."""
        return {"topic": Fault(self._delete, self._create), "partitions": Fault(self._widen, nothing)}

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """There is a topic, and records flow into it, until the context is left."""
        self._create()
        try:
            yield
        finally:
            self._stop()

    def _create(self) -> None:
        """Create the topic, with another number of partitions each time, and produce."""
        self._partitions = self._draw.randint(_FEWEST, _MOST)
        until = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                new = NewTopic(self._place.kind.topic, self._partitions)
                self._admin.create_topics([new])[new.topic].result(_ANSWER_SECONDS)
            except KafkaException:  # the one before may still be on its way out
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                break
        self._produce()

    def _delete(self) -> None:
        """Delete the topic, with all that it holds."""
        self._stop()
        topic = self._place.kind.topic
        committed = positions(self._place)[0] if self._is_noted() else {}  # else it is of the topic before
        self.numbers.lose({at.partition: offset for at, offset in committed.items()})
        self._admin.delete_topics([topic])[topic].result(_ANSWER_SECONDS)

    def _is_noted(self) -> bool:
        """Whether the group's positions are known to be of this topic, and of none before."""
        topic = self._place.kind.topic
        with suppress(UnavailableError), opened(self._place) as pipeline:
            noted = pipeline.ledger.look(pipeline.subscription.name).topic_ids
            return noted.get(topic) == pipeline.source.topic_ids({topic}).get(topic)
        return False

    def _widen(self) -> None:
        """One more partition."""
        self._stop()
        self._partitions += 1
        topic = self._place.kind.topic
        self._admin.create_partitions([NewPartitions(topic, self._partitions)])[topic].result(_ANSWER_SECONDS)
        self._produce()

    def check(self) -> None:
        """Raise ProducerStuckError if a producer failed."""
        self._producing.check()

    def last_words(self) -> None:
        """One more record for each partition."""
        self._producing.last_words()

    def _stop(self) -> None:
        """Produce no more, once everything is answered for."""
        self._stack.close()

    def _produce(self) -> None:
        self._producing = self._producers()
        self._stack.enter_context(self._producing.going_on())

    def _producers(self) -> Producing:
        return Producing(
            self._place.bootstrap,
            self._place.kind.topic,
            rate=self._rate,
            seed=self._seed + next(self._turns),
            partitions=max(1, self._partitions),
            numbers=self.numbers,
        )
