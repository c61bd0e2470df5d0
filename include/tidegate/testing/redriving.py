"""Dead-letter topics and redrives in memory."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidegate.dead_letters.letter import DeadLetter, Intent, MarkState, RedriveStatus, Settled, TopicIdentity
from tidegate.model.errors import StaleError
from tidegate.model.offsets import Range, TopicPartition

_WEIGHT: dict[MarkState, int] = {"begun": 0, "unknown": 1, "redriven": 2}


@dataclass
class MemoryDeadLetters:
    """The port `dead_letters.ports.DeadLetterTopic`, and a test's hands on it; `others` are topics that exist too."""

    name: str
    letters: list[DeadLetter] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    topic_id: str = "id-1"

    def put(
        self,
        value: bytes | None,
        *headers: tuple[str, bytes | None],
        key: bytes | None = None,
        partition: int = 0,
        timestamp: int | None = 0,
    ) -> DeadLetter:
        """A letter at the end of its partition; offsets have gaps, as after transactions."""
        at = TopicPartition(self.name, partition)
        offset = 2 * sum(letter.at == at for letter in self.letters)
        letter = DeadLetter(at, offset, timestamp, None if timestamp is None else "create", key, value, headers)
        self.letters.append(letter)
        return letter

    def id(self) -> str:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return self.topic_id

    def extent(self) -> tuple[Range, ...]:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        ends: dict[int, int] = defaultdict(int)
        for letter in self.letters:
            ends[letter.at.partition] = max(ends[letter.at.partition], letter.offset + 1)
        return tuple(Range(self.name, partition, 0, end) for partition, end in sorted(ends.items()))

    def read(self, extent: Sequence[Range]) -> Iterator[DeadLetter]:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        for held in extent:
            for letter in list(self.letters):
                if letter.at == held.at and held.start <= letter.offset < held.end:
                    yield letter

    def partitions_of(self, topic: str) -> int:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return self.others.get(topic, 0)


@dataclass(slots=True)
class _Chunk:
    identity: TopicIdentity
    intent: Intent
    state: MarkState = "begun"
    closed_at: datetime | None = None


class MemoryRedrives:
    """The port `dead_letters.ports.RedriveLedger`."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._turns: dict[str, int] = {}
        self._chunks: dict[str, _Chunk] = {}

    def take_turn(self, topic: str) -> int:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        self._turns[topic] = self._turns.get(topic, 0) + 1
        return self._turns[topic]

    def check_turn(self, topic: str, turn: int) -> None:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        if self._turns.get(topic) != turn:
            raise StaleError(f"topic {topic}: a newer redrive has taken over")

    def settle(self, identity: TopicIdentity, turn: int, last_token: str | None) -> Settled:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        self.check_turn(identity.topic, turn)
        settled = Settled()
        for token, chunk in list(self._chunks.items()):
            if chunk.identity.topic != identity.topic or chunk.state != "begun":
                continue
            count = len(chunk.intent.to)
            if token == last_token:
                self._close(chunk, "redriven")
                settled = replace(settled, redriven=settled.redriven + count)
            elif chunk.intent.after == last_token:
                del self._chunks[token]
                settled = replace(settled, dropped=settled.dropped + count)
            else:
                self._close(chunk, "unknown")
                settled = replace(settled, unknown=settled.unknown + count)
        return settled

    def note(self, identity: TopicIdentity, turn: int, intent: Intent) -> None:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        self.check_turn(identity.topic, turn)
        self._chunks[intent.token] = _Chunk(identity, intent)

    def mark(self, token: str) -> None:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        if token in self._chunks and self._chunks[token].state != "redriven":
            self._close(self._chunks[token], "redriven")

    def marks(self, identity: TopicIdentity, partition: int, offsets: Collection[int]) -> dict[int, RedriveStatus]:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        found: dict[int, RedriveStatus] = {}
        for chunk in sorted(self._chunks.values(), key=lambda each: (_WEIGHT[each.state], each.intent.at)):
            for (number, offset), to in chunk.intent.to.items():
                if chunk.identity == identity and number == partition and offset in offsets:
                    found[offset] = RedriveStatus(chunk.state, to, chunk.intent.by, chunk.closed_at or chunk.intent.at)
        return found

    def redriven(self, identity: TopicIdentity, extent: Sequence[Range]) -> int:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        done = {
            letter
            for chunk in self._chunks.values()
            if chunk.identity == identity and chunk.state == "redriven"
            for letter in chunk.intent.to
        }
        return sum((held.partition, offset) in done for held in extent for offset in range(held.start, held.end))

    def _close(self, chunk: _Chunk, state: MarkState) -> None:
        chunk.state = state
        chunk.closed_at = self._now()
