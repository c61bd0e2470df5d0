"""Dead letters that are redriven into the topic that the subscription reads, each once."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from simulation.violation import ViolationError
from tidegate.dead_letters.letter import REDRIVEN_FROM, DeadLetter, Settled
from tidegate.dead_letters.lock import RedriveLock, redriver_of
from tidegate.dead_letters.redriver import Redriver, RedriveRequest, survey
from tidegate.dead_letters.targets import Targets
from tidegate.model.errors import TidegateError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.records import last
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.redriving import MemoryRedrives
from tidegate.testing.topics import MemoryPartition, MemoryTopics


@dataclass(frozen=True, slots=True)
class Letters:
    """The port `dead_letters.ports.DeadLetterTopic` on a topic in memory."""

    topics: MemoryTopics
    name: str

    def id(self) -> str:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return self.topics.ids[self.name]

    def extent(self) -> tuple[Range, ...]:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        ends = ((at.partition, log.end(committed_only=True)) for at, log in sorted(self._logs(self.name).items()))
        return tuple(Range(self.name, partition, 0, end) for partition, end in ends)

    def read(self, extent: Sequence[Range]) -> Iterator[DeadLetter]:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        for r in extent:
            for offset, record in self.topics.logs[r.at].records(r.start, r.end, committed_only=True):
                yield DeadLetter(r.at, offset, record.timestamp, "create", record.key, record.value, record.headers)

    def partitions_of(self, topic: str) -> int:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return len(self._logs(topic))

    def _logs(self, topic: str) -> dict[TopicPartition, MemoryPartition]:
        return {at: log for at, log in self.topics.logs.items() if at.topic == topic}


class Redrives:
    """The dead-letter topic of a subscription, the group of whoever redrives it, and what is noted of that."""

    def __init__(self, subscription: Subscription, topics: MemoryTopics, clock: Clock) -> None:
        topic = subscription.dead_letter_queue.of(subscription.name)
        self._order = RedriveRequest(subscription.name, Targets(subscription.topics))
        self._letters = Letters(topics, topic)
        self._ledger = MemoryRedrives(clock.now)
        self.group = MemoryOffsets(redriver_of(topic), fencing=True, topics=topics)

    @property
    def has_letters(self) -> bool:
        """Whether the dead-letter topic holds anything."""
        return any(r.end for r in self._letters.extent())

    def redrive(self, clock: Clock, seen: Callable[[str, Any], Any] = lambda _, port: port) -> Settled:
        """One redrive of all that lies there, whose ports are `seen` by somebody; what it found out about others."""
        letters, ledger = seen("letters", self._letters), seen("redrives", self._ledger)
        lock = RedriveLock(seen("redrive_offsets", self.group), self._letters.name)
        redriver = Redriver(self._order, letters, ledger, lock, clock)
        redriver.run(survey(self._order, letters, ledger), lambda _: None)
        return redriver.settled

    def check(self) -> None:
        """No letter was redriven twice."""
        if again := sorted(place for place, times in self._redriven().items() if times > 1):
            raise ViolationError(f"dead letters were redriven twice: {', '.join(again)}")

    def finish(self, clock: Clock) -> None:
        """A clean redrive: then each letter was redriven, nobody is in doubt about any, and nothing is left to do."""
        try:
            settled = self.redrive(clock)
        except TidegateError as error:
            raise ViolationError(f"a clean redrive fails: {error}") from error
        if settled.unknown:
            raise ViolationError(f"nobody knows whether {settled.unknown} dead letters were redriven")
        self.check()
        letters = {f"{each.at.topic}/{each.at.partition}/{each.offset}" for each in self._all()}
        if lost := sorted(letters - self._redriven().keys()):
            raise ViolationError(f"dead letters were never redriven: {', '.join(lost)}")
        if left := survey(self._order, self._letters, self._ledger).tally.total:
            raise ViolationError(f"{left} dead letters were redriven, and are to be redriven again")

    def _all(self) -> Iterator[DeadLetter]:
        return self._letters.read(self._letters.extent())

    def _redriven(self) -> Counter[str]:
        return Counter((last(each.headers, REDRIVEN_FROM) or b"").decode() for each in self.group.produced)
