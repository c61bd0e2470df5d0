from datetime import UTC, datetime

import pytest

from tidegate.dead_letters import waiting
from tidegate.dead_letters.letter import Intent, TopicIdentity
from tidegate.dead_letters.superseded import Superseded
from tidegate.dead_letters.waiting import left_out_waiting, letters_waiting
from tidegate.model.offsets import Range
from tidegate.ports import ReprocessedBatch
from tidegate.testing.clock import MemoryClock
from tidegate.testing.redriving import MemoryDeadLetters, MemoryRedrives
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics, Record

TOPIC = "dead-letter-topic-orders"
LETTER = Record(b"bad")


class World:
    def __init__(self) -> None:
        self.topics, self.redrives, self.clock = MemoryTopics(), MemoryRedrives(), MemoryClock()
        self.topics.create(TOPIC, 2)

    def waiting(self, topic: str = TOPIC) -> int:
        source = MemorySource(self.topics, clock=self.clock)
        return letters_waiting(topic, source, self.redrives, self.clock)

    def redrive(self, *offsets: int, partition: int = 0) -> None:
        identity = TopicIdentity(TOPIC, self.topics.ids[TOPIC])
        turn = self.redrives.take_turn(TOPIC)
        to = {(partition, offset): "orders" for offset in offsets}
        self.redrives.note(identity, turn, Intent(f"t{turn}", "t0", "orders", "me", datetime.now(UTC), to))
        self.redrives.mark(f"t{turn}")


def test_a_missing_topic_and_an_empty_one_have_none() -> None:
    assert (World().waiting("nowhere"), World().waiting()) == (0, 0)


def test_records_are_counted_and_not_the_markers_of_transactions() -> None:
    world = World()
    for _ in range(3):
        transaction = world.topics.begin()
        transaction.produce(TOPIC, LETTER, LETTER)
        transaction.commit()
    world.topics.produce(TOPIC, LETTER, partition=1)
    assert world.waiting() == 7


def test_what_was_redriven_doesnt_wait_and_what_expired_neither() -> None:
    world = World()
    world.topics.produce(TOPIC, *[LETTER] * 5)
    world.redrive(0, 3)
    assert world.waiting() == 3
    world.topics.expire(TOPIC, 2)
    assert world.waiting() == 2
    world.redrive(2, 4)
    assert world.waiting() == 0


def test_many_are_counted_as_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_MOST_READ", 5)
    world = World()
    world.topics.produce(TOPIC, *[LETTER] * 6)
    world.topics.remove(TOPIC, 1, 2)
    assert world.waiting() == 6


def test_what_isnt_read_in_time_is_counted_as_offsets() -> None:
    world = World()
    world.topics.produce(TOPIC, *[LETTER] * 6)
    world.topics.remove(TOPIC, 1, 5)
    world.topics.stick(TOPIC, 4)
    assert world.waiting() == 5


def test_what_was_reprocessed_and_not_redriven_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, redrives = MemoryDeadLetters(TOPIC, topic_id="id"), MemoryRedrives()
    for offset in range(4):
        told = {"topic": "orders", "partition": "0", "offset": str(offset)}
        topic.put(b"", *((f"dead-letter-{name}", value.encode()) for name, value in told.items()))
    superseded = Superseded([ReprocessedBatch("b1", 2, (Range("orders", 0, 1, 9),))])
    assert left_out_waiting(topic, redrives, superseded) == 3
    assert left_out_waiting(topic, redrives, Superseded()) == 0
    turn = redrives.take_turn(TOPIC)
    to = {(0, topic.letters[2].offset): "orders"}
    redrives.note(TopicIdentity(TOPIC, "id"), turn, Intent("t1", "t0", "orders", "me", datetime.now(UTC), to))
    redrives.mark("t1")
    assert left_out_waiting(topic, redrives, superseded) == 2
    monkeypatch.setattr(waiting, "_MOST_READ", 3)
    assert left_out_waiting(topic, redrives, superseded) == 0


def test_what_a_replay_made_waits_for_nobody() -> None:
    topic = MemoryDeadLetters(TOPIC, topic_id="id")
    topic.put(b"", ("tidegate-replay", b"orders-replay-0123abcd"))
    topic.put(b"")
    assert left_out_waiting(topic, MemoryRedrives(), Superseded()) == 1
