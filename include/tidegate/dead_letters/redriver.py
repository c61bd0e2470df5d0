"""Produce dead letters again to where they came from, each once, whatever dies at whatever instant.

Kafka and the ledger can't be changed in one transaction, so the ledger notes what is about to be done, and Kafka keeps
the proof that it was: a token, committed in the same Kafka transaction as the records.

1. Take the turn in the ledger, which counts turns: whoever has an older one can't write there any more.
2. Settle what others left, under the fence: a transactional producer of the id `tidegate-redrive-<dead-letter topic>`,
   which shuts out every older one and ends what it left pending. The standing token is the metadata that the group
   `redrive-<dead-letter topic>` has committed for partition 0. A noted chunk that isn't marked was redriven if its
   token is the standing one, and wasn't if it was noted under the standing one: nobody can commit in between, because
   who noted it had taken the fence before, and has lost it. Where the standing token is neither, Kafka has forgotten
   (offsets of an idle group expire, in 7 days by default) or somebody else has written there: nobody knows what became
   of the chunk, so it isn't redriven again unless that is asked for. A group without a token is given one.
3. For each chunk, of a bounded number of records and bytes: take the fence anew, see that the standing token is still
   the last one; note the letters in the ledger, with a new token and the standing one; in one Kafka transaction produce
   the records and commit the token; mark the chunk as redriven.

Each transaction has a fence of its own: the end of a transaction that the network delivers late would else end the next
one of the same fence, wherever that is. Taken by who has an older turn, the fence is in nobody's way for long: the
ledger takes no note of theirs.

A crash before the commit leaves a note that the next redrive drops; one after it, a note that the next redrive marks.
"""

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.dead_letters.letter import (
    REDRIVEN_FROM,
    DeadLetter,
    DeadLetterFilter,
    Intent,
    RedriveStatus,
    Settled,
    TopicIdentity,
)
from tidegate.dead_letters.lock import HeldRedriveLock, RedriveLock
from tidegate.dead_letters.ports import DeadLetterTopic, RedriveLedger
from tidegate.dead_letters.superseded import NONE_SUPERSEDED, Superseded
from tidegate.dead_letters.targets import Targets, is_kafkas_own
from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.model.offsets import Range
from tidegate.model.records import Outgoing, utf8
from tidegate.ports import Clock

_TOKEN = re.compile(r"[0-9a-f]{32}")
_MOST_LETTERS = 1_000
_MOST_BYTES = 16 << 20
_MOST_TOPICS = 100

OTHERS = "(other topics)"


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """Which dead letters are to be redriven, and how.

    Each goes to its origin's topic, if that is one of `targets`; or to `to`, whatever that is. With `again` also those
    that were redriven before, or perhaps were, with `reprocessed` also those whose batch was reprocessed since, and
    with `replayed` also those that replays made; `limit` bounds the number. `ends` are offsets of the dead-letter
    topic, by partition, that letters lie before, in these partitions alone; None for all that is there.
    """

    subscription: str
    targets: Targets
    wanted: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    to: str | None = None
    again: bool = False
    reprocessed: bool = False
    replayed: bool = False
    limit: int | None = None
    by: str = ""
    ends: Mapping[int, int] | None = None


@dataclass(slots=True)
class Tally:
    """How many letters go where, and how many are left out, and why."""

    to: Counter[str] = field(default_factory=Counter)
    redriven_before: int = 0
    perhaps_redriven: int = 0
    reprocessed: int = 0
    """Of batches that were reprocessed since."""
    being_reprocessed: Counter[str] = field(default_factory=Counter)
    """Of batches, by id, whose reprocess has begun and hasn't ended."""
    replayed: int = 0
    """Of replays, whose rows are in another output."""
    without_origin: int = 0
    other_topics: Counter[str] = field(default_factory=Counter)
    """Of those that say they came from a topic that they may not go to, by topic: the first 100, then all others."""
    begun: int = 0
    """Of those that go somewhere: noted by a redrive that didn't finish, or hasn't yet."""

    @property
    def total(self) -> int:
        """How many go somewhere."""
        return self.to.total()

    def to_json(self) -> dict[str, Any]:
        """The counts by name."""
        return {
            "count": self.total,
            "to": dict(sorted(self.to.items())),
            "skipped": {
                "redriven_before": self.redriven_before,
                "perhaps_redriven": self.perhaps_redriven,
                "reprocessed": self.reprocessed,
                "being_reprocessed": self.being_reprocessed.total(),
                "replayed": self.replayed,
                "without_origin": self.without_origin,
                "other_topics": self.other_topics.total(),
            },
            "other_topics": dict(sorted(self.other_topics.items())),
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """What an order comes to: the topic as it was then, if it `is_there`, and what would go where."""

    identity: TopicIdentity
    extent: tuple[Range, ...]
    tally: Tally
    superseded: Superseded
    is_there: bool = True


def survey(
    order: RedriveRequest, topic: DeadLetterTopic, ledger: RedriveLedger, superseded: Superseded = NONE_SUPERSEDED
) -> Survey:
    """Read the whole topic as it is now, and change nothing.

    Raises WrongDefinitionError where a topic that letters would go to isn't there, is the dead-letter topic itself or
    one that Kafka keeps for itself.
    """
    held = topic.extent()
    extent = _before(held, order.ends)
    found = Survey(TopicIdentity(topic.name, topic.id() if held else ""), extent, Tally(), superseded, bool(held))
    for _ in _chunks(order, found, topic, ledger, found.tally):
        pass
    for destination in sorted(found.tally.to):
        if is_kafkas_own(destination):
            raise WrongDefinitionError(
                f"topic {destination} is one that Kafka keeps for itself: name another one to redrive dead letters to; "
                "nothing was redriven"
            )
        if destination == topic.name:
            raise WrongDefinitionError(
                f"topic {destination} is the one that the dead letters lie in: name another one to redrive them to"
            )
        if not topic.partitions_of(destination):
            raise WrongDefinitionError(
                f"topic {destination}, which {found.tally.to[destination]} dead letters of {topic.name} would go to, "
                "isn't there: create it, or name another one to redrive them to; nothing was redriven"
            )
    return found


def _before(extent: Sequence[Range], ends: Mapping[int, int] | None) -> tuple[Range, ...]:
    """What of the topic lies before these offsets."""
    if ends is None:
        return tuple(extent)
    clipped = [replace(r, end=min(r.end, ends[r.partition])) for r in extent if ends.get(r.partition, 0) > r.start]
    return tuple(clipped)


class Redriver:
    """Carries out an order, chunk by chunk; how far it came stands in `done` and `settled`, also when it fails."""

    def __init__(
        self, order: RedriveRequest, topic: DeadLetterTopic, ledger: RedriveLedger, turns: RedriveLock, clock: Clock
    ) -> None:
        self._order = order
        self._topic = topic
        self._ledger = ledger
        self._turns = turns
        self._clock = clock
        self._partitions: dict[str, int] = {}
        self.done = Tally()
        self.settled = Settled()

    def run(self, surveyed: Survey, said: Callable[[int], None]) -> None:
        """Redrive what the survey found; `said` hears of the number of letters of each chunk. Raises as `Turn`."""
        identity, seen = surveyed.identity, Tally()
        self._check_topic(identity)
        number = self._ledger.take_turn(identity.topic)
        last_token = self._settle(identity, number)
        for chunk in _chunks(self._order, surveyed, self._topic, self._ledger, seen):
            last_token = self._redrive(identity, number, chunk, last_token)
            self.done.to.update(destination for _, destination in chunk)
            said(len(chunk))
        self.done = seen

    def _check_topic(self, identity: TopicIdentity) -> None:
        if self._topic.id() != identity.id:
            raise StaleError(
                f"topic {identity.topic} was created anew in the meantime; nothing was redriven, look again"
            )

    def _settle(self, identity: TopicIdentity, number: int) -> str:
        """Decide what became of the chunks of others; the token that stands then."""
        with self._turns.acquire() as turn:
            last_token = turn.last_token()
            self.settled = self._ledger.settle(identity, number, last_token)
            if last_token is None or not _TOKEN.fullmatch(last_token):  # nobody's, or not one of ours
                last_token = _token()
                turn.produce((), last_token)
        return last_token

    def _redrive(
        self, identity: TopicIdentity, number: int, chunk: Sequence[tuple[DeadLetter, str]], last_token: str
    ) -> str:
        """Redrive a chunk, each of whose letters has its topic; the token that stands then."""
        token = _token()
        records = [self._record(letter, destination) for letter, destination in chunk]
        self._ledger.check_turn(identity.topic, number)  # who has an older one leaves the fence to the newer
        with self._turns.acquire() as turn:
            self._check_standing(identity, turn, last_token)
            self._ledger.note(identity, number, self._intent(chunk, token, last_token))
            turn.produce(records, token)
            self._ledger.mark(token)
        return token

    def _check_standing(self, identity: TopicIdentity, turn: HeldRedriveLock, expected: str) -> None:
        if turn.last_token() != expected:
            raise StaleError(
                f"somebody else redrives topic {identity.topic}, by another ledger: what this command did until now is "
                "done, and nothing more; use one ledger (TIDEGATE_LEDGER) for all redrives of a topic"
            )

    def _intent(self, chunk: Iterable[tuple[DeadLetter, str]], token: str, last_token: str) -> Intent:
        to = {(letter.at.partition, letter.offset): destination for letter, destination in chunk}
        return Intent(token, last_token, self._order.subscription, self._order.by, self._clock.now(), to)

    def _record(self, letter: DeadLetter, destination: str) -> Outgoing:
        if destination not in self._partitions:
            self._partitions[destination] = self._topic.partitions_of(destination)
        return redriven(letter, destination, self._partitions[destination])


def redriven(letter: DeadLetter, destination: str, partitions: int) -> Outgoing:
    """The record that a dead letter becomes: key, value, headers and the record's timestamp, and where the letter lay.

    It goes to its first partition where it goes to its first topic and that has such a partition; else by its key.
    """
    origin = letter.origin
    first = origin.partition if origin is not None and origin.topic == destination else None
    partition = first if first is not None and first < partitions else None
    lay = f"{letter.at.topic}/{letter.at.partition}/{letter.offset}"
    headers = (*letter.headers, (REDRIVEN_FROM, utf8(lay)))
    return Outgoing(destination, partition, letter.record_timestamp, letter.key, letter.value, headers)


def blocks(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """The letters in runs of a bounded number and size, which never span two partitions."""
    block: list[DeadLetter] = []
    size = 0
    for letter in letters:
        if block and (block[0].at != letter.at or size + letter.size > _MOST_BYTES or len(block) == _MOST_LETTERS):
            yield block
            block, size = [], 0
        block.append(letter)
        size += letter.size
    if block:
        yield block


def _chunks(
    order: RedriveRequest, surveyed: Survey, topic: DeadLetterTopic, ledger: RedriveLedger, tally: Tally
) -> Iterator[list[tuple[DeadLetter, str]]]:
    """The letters that are to go, each with the topic that it goes to; all that are read are counted in `tally`."""
    wanted = (letter for letter in topic.read(surveyed.extent) if order.wanted.takes(letter))
    for block in blocks(wanted):
        marks = ledger.marks(surveyed.identity, block[0].at.partition, [letter.offset for letter in block])
        chunk = []
        for letter in block:
            if tally.total == order.limit:
                break
            destination = _destination(order, surveyed.superseded, letter, marks.get(letter.offset), tally)
            if destination is not None:
                tally.to[destination] += 1
                chunk.append((letter, destination))
        if chunk:
            yield chunk
        if tally.total == order.limit:
            return


def _destination(
    order: RedriveRequest, superseded: Superseded, letter: DeadLetter, mark: RedriveStatus | None, tally: Tally
) -> str | None:
    """The topic that a letter is to go to; None, and counted, for one that isn't to."""
    state = mark.state if mark else None
    if _is_dealt_with(order, superseded, letter, state, tally):
        return None
    destination = order.to or (letter.origin.topic if letter.origin else None)
    if destination is None:
        tally.without_origin += 1
        return None
    if order.to is None and not order.targets.takes(destination):
        is_named = destination in tally.other_topics or len(tally.other_topics) < _MOST_TOPICS
        tally.other_topics[destination if is_named else OTHERS] += 1
        return None
    tally.begun += state == "begun"
    return destination


def _is_dealt_with(
    order: RedriveRequest, superseded: Superseded, letter: DeadLetter, state: str | None, tally: Tally
) -> bool:
    """Whether the letter's record is a row already, or may be, or its redrive is done; it is counted then."""
    if letter.replay and not order.replayed:
        tally.replayed += 1
    elif not order.reprocessed and superseded.has(letter):
        tally.reprocessed += 1
    elif not order.reprocessed and (batch_id := superseded.perhaps(letter)):
        tally.being_reprocessed[batch_id] += 1
    elif state == "redriven" and not order.again:
        tally.redriven_before += 1
    elif state == "unknown" and not order.again:
        tally.perhaps_redriven += 1
    else:
        return False
    return True


def _token() -> str:
    return uuid.uuid4().hex
