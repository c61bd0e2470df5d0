"""Dead letters are redriven each once, as they were, wherever a redrive is cut off."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest

from tidegate.cli.dead_letters_text import left_out
from tidegate.dead_letters import redriver
from tidegate.dead_letters.letter import DeadLetter, DeadLetterFilter, Settled
from tidegate.dead_letters.lock import RedriveLock
from tidegate.dead_letters.redriver import Redriver, RedriveRequest, survey
from tidegate.dead_letters.superseded import Superseded
from tidegate.dead_letters.targets import Targets
from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.records import last
from tidegate.model.subscription import TopicNames, TopicPartitions, TopicPattern, TopicSelection
from tidegate.ports import ReprocessedBatch
from tidegate.testing.clock import MemoryClock
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.redriving import MemoryDeadLetters, MemoryRedrives

TOPIC = "dead-letter-topic-orders"
SECONDS = 120
T0 = datetime(2026, 1, 1, tzinfo=UTC)


def told(topic: str = "orders", partition: int = 0, offset: int = 7, reason: str = "no") -> list[tuple[str, bytes]]:
    """The headers of a dead letter."""
    return [
        ("dead-letter-reason", reason.encode()),
        ("dead-letter-topic", topic.encode()),
        ("dead-letter-partition", str(partition).encode()),
        ("dead-letter-offset", str(offset).encode()),
    ]


READS = Targets(TopicNames(("orders", "elsewhere")))


def ordered(**values: Any) -> RedriveRequest:
    """What `tidegate dead-letters redrive orders` orders, where that subscription reads two topics."""
    return RedriveRequest("orders", values.pop("targets", READS), **values)


class World:
    """A dead-letter topic with its ledger and turns, each of whose calls may be told to somebody."""

    def __init__(self) -> None:
        self.topic = MemoryDeadLetters(TOPIC, others={"orders": 2, "elsewhere": 1})
        self.ledger = MemoryRedrives()
        self.offsets = MemoryOffsets(fencing=True)
        self.turns = RedriveLock(self.offsets, TOPIC)

    def put(self, count: int, **values: Any) -> list[DeadLetter]:
        return [self.topic.put(str(n).encode(), *told(offset=n), **values) for n in range(count)]

    def redriver(self, order: RedriveRequest, effect: Callable[[str], None] | None = None) -> Redriver:
        told_of = partial(Told, effect=effect) if effect else (lambda port: port)
        return Redriver(order, self.topic, told_of(self.ledger), told_of(self.turns), MemoryClock())

    def run(self, **values: Any) -> Redriver:
        order = ordered(**values)
        redriver = self.redriver(order)
        redriver.run(survey(order, self.topic, self.ledger), lambda _: None)
        return redriver

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.offsets.produced]


class Told:
    """A port that tells of each call, before and after it."""

    def __init__(self, port: Any, effect: Callable[[str], None]) -> None:
        self._port = port
        self._effect = effect

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self._effect(f"before {name}")
            answer = getattr(self._port, name)(*args)
            self._effect(f"after {name}")
            return answer

        return call

    @contextmanager
    def acquire(self) -> Iterator["Told"]:
        with self._port.acquire() as turn:
            self._effect("after acquire")
            yield Told(turn, self._effect)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redriver, "_MOST_LETTERS", 2)


def test_a_record_comes_back_as_it_was_with_its_history_and_where_it_lay(world):
    headers = [("trace", b"t"), ("empty", None), ("trace", b"u"), *told(partition=1)]
    world.topic.put(b"value", *headers, key=b"key", timestamp=1234, partition=3)
    world.run()
    [record] = world.offsets.produced
    assert (record.topic, record.partition, record.timestamp) == ("orders", 1, 1234)
    assert (record.key, record.value) == (b"key", b"value")
    assert record.headers == (*headers, ("tidegate-redriven-from", f"{TOPIC}/3/0".encode()))


@pytest.mark.parametrize(("header", "comes_back"), [(b"1234", 1234), (b"-1", None), (b"soon", 99), (None, 99)])
def test_a_record_comes_back_with_the_timestamp_that_its_letter_names(world, header, comes_back):
    world.topic.put(b"value", *told(), ("tidegate-timestamp", header), timestamp=99)
    world.run()
    [record] = world.offsets.produced
    assert record.timestamp == comes_back


def test_a_tombstone_without_key_and_timestamp_comes_back_so(world):
    world.topic.put(None, *told(), timestamp=None)
    world.run()
    [record] = world.offsets.produced
    assert (record.key, record.value, record.timestamp) == (None, None, None)


@pytest.mark.parametrize(
    ("origin", "to", "expected"),
    [
        (told(partition=1), None, ("orders", 1)),
        (told(partition=2), None, ("orders", None)),  # the topic has two
        (told(partition=0), "orders", ("orders", 0)),
        (told(partition=0), "elsewhere", ("elsewhere", None)),
        ([*told("elsewhere"), *told(partition=1)], None, ("orders", 1)),  # the last failure counts
        ([("dead-letter-topic", b"orders"), ("dead-letter-partition", b"-1")], None, ("orders", None)),
        ([("dead-letter-topic", b"orders")], None, ("orders", None)),
        ([], "orders", ("orders", None)),
    ],
)
def test_it_goes_to_its_first_partition_or_by_its_key(world, origin, to, expected):
    world.topic.put(b"x", *origin)
    world.run(to=to)
    [record] = world.offsets.produced
    assert (record.topic, record.partition) == expected


def at(hours: int) -> int:
    return int((T0 + timedelta(hours=hours)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (DeadLetterFilter(), b"abcd"),
        (DeadLetterFilter(reason=re.compile("^bad")), b"ac"),
        (DeadLetterFilter(reason=re.compile("date$")), b"c"),
        (DeadLetterFilter(since=T0 + timedelta(hours=1)), b"bc"),
        (DeadLetterFilter(until=T0 + timedelta(hours=1)), b"a"),
        (DeadLetterFilter(since=T0 + timedelta(hours=1), until=T0 + timedelta(hours=2)), b"b"),
        (DeadLetterFilter(topic="elsewhere"), b"b"),
        (DeadLetterFilter(partition=1), b"c"),
        (DeadLetterFilter(topic="elsewhere", partition=1), b""),
    ],
)
def test_filters_select(world, wanted, expected):
    world.topic.put(b"a", *told(reason="bad number"), timestamp=at(0))
    world.topic.put(b"b", *told("elsewhere", reason="not bad"), timestamp=at(1))
    world.topic.put(b"c", *told(partition=1, reason="bad date"), timestamp=at(2))
    world.topic.put(b"d", *told(reason="?"), timestamp=None)
    world.run(wanted=wanted)
    assert b"".join(world.values) == expected


def test_the_second_time_nothing_is_left_unless_it_is_asked_for_again(world):
    world.put(3)
    assert world.run().done.total == 3
    second = world.run()
    assert (second.done.total, second.done.redriven_before) == (0, 3)
    world.put(4)
    assert world.run().done.to_json()["skipped"]["redriven_before"] == 3
    assert world.run(again=True, limit=2).done.total == 2
    assert world.values == [b"0", b"1", b"2", b"0", b"1", b"2", b"3", b"0", b"1"]


def test_a_limit_counts_what_is_redriven(world):
    world.put(5)
    world.run(limit=3)
    assert world.values == [b"0", b"1", b"2"]
    world.run(limit=1)
    assert world.values == [b"0", b"1", b"2", b"3"]


def test_what_does_not_say_where_it_came_from_is_left_out_and_counted(world):
    world.topic.put(b"stray")
    world.put(1)
    assert world.run().done.without_origin == 1
    assert world.values == [b"0"]
    world.run(to="elsewhere")
    assert world.values == [b"0", b"stray"]


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("gone", "isn't there"),
        (TOPIC, "is the one that the dead letters lie in"),
        ("__consumer_offsets", "keeps for itself"),
        ("__transaction_state", "keeps for itself"),
        ("__cluster_metadata", "keeps for itself"),
    ],
)
@pytest.mark.parametrize("how", ["read", "allowed", "to"])
def test_a_topic_that_cannot_take_them_is_refused_before_anything_is_done(world, to, said, how):
    world.put(1)
    world.topic.put(b"x", *told(topic=to), partition=5)
    world.topic.others["__consumer_offsets"] = 50
    orders = {
        "read": ordered(targets=Targets(TopicNames(("orders", to)))),
        "allowed": ordered(targets=Targets(TopicNames(("orders",)), allowed=frozenset({to}))),
        "to": ordered(to=to),
    }
    with pytest.raises(WrongDefinitionError, match=said):
        survey(orders[how], world.topic, world.ledger)
    assert world.values == []


@pytest.mark.parametrize(
    ("reads", "others"),
    [
        (TopicNames(("orders",)), 2),
        (TopicPattern("order."), 2),
        (TopicPattern(".*"), 1),  # which leaves out what Kafka keeps for itself
        (TopicPartitions({"orders": (1,)}), 2),
    ],
)
def test_a_letter_goes_to_no_topic_that_its_subscription_does_not_read(world, reads: TopicSelection, others: int):
    """Whoever may write to the dead-letter topic writes the headers."""
    world.put(1)
    for topic in ("payments", "__consumer_offsets"):
        world.topic.put(b"forged", *told(topic))
        world.topic.others[topic] = 1
    done = world.run(targets=Targets(reads)).done
    assert (done.other_topics.total(), done.other_topics["__consumer_offsets"]) == (others, 1)
    assert done.to_json()["skipped"]["other_topics"] == others
    assert world.values == ([b"0"] if others == 2 else [b"0", b"forged"])
    assert world.run(targets=Targets(reads, allowed=frozenset({"payments"}))).done.other_topics.total() == 1
    assert world.values == [b"0", b"forged"]


def test_topics_that_letters_name_and_are_all_different_take_bounded_memory(world, monkeypatch):
    monkeypatch.setattr(redriver, "_MOST_TOPICS", 3)
    for number in range(5):
        world.topic.put(b"forged", *told(f"topic-{number}"))
    done = world.run().done
    assert (len(done.other_topics), done.other_topics.total()) == (4, 5)
    assert done.other_topics[redriver.OTHERS] == 2


def test_what_arrives_after_the_survey_waits_for_the_next(world):
    world.put(1)
    order = ordered()
    surveyed = survey(order, world.topic, world.ledger)
    world.put(2)
    world.redriver(order).run(surveyed, lambda _: None)
    assert world.values == [b"0"]


def test_letters_of_a_topic_that_was_created_anew_are_others(world):
    world.put(2)
    order = ordered()
    surveyed = survey(order, world.topic, world.ledger)
    world.run()
    world.topic.topic_id = "id-2"
    with pytest.raises(StaleError, match="created anew"):
        world.redriver(order).run(surveyed, lambda _: None)
    assert world.run().done.total == 2


def test_chunks_are_bounded_in_bytes_and_span_no_two_partitions(monkeypatch):
    monkeypatch.setattr(redriver, "_MOST_LETTERS", 9)
    monkeypatch.setattr(redriver, "_MOST_BYTES", 10)
    topic = MemoryDeadLetters(TOPIC)
    letters = [topic.put(b"." * size) for size in (4, 4, 4, 30, 1)] + [topic.put(b".", partition=1)]
    sizes = [[letter.size for letter in block] for block in redriver.blocks(letters)]
    assert sizes == [[4, 4], [4], [30], [1], [1]]


def test_a_redrive_by_another_ledger_in_between_ends_the_first_one_by_name(world):
    world.put(4)
    order = ordered()
    redriver = world.redriver(order)

    def other(_: int) -> None:
        world.ledger, ours = MemoryRedrives(), world.ledger
        world.run(limit=1)
        world.ledger = ours

    with pytest.raises(StaleError, match=r"by another ledger: .*TIDEGATE_LEDGER"):
        redriver.run(survey(order, world.topic, world.ledger), other)
    assert world.values == [b"0", b"1", b"0"]


# Crashes


def test_letters_of_a_batch_that_was_reprocessed_since_stay_but_for_those_of_its_newest_generation(world):
    world.put(3)
    for generation in (2, 3):
        made = ("tidegate-generation", f"b1/{generation}".encode())
        world.topic.put(b"newer", *told(offset=1), made)
    superseded = Superseded([ReprocessedBatch("b1", 3, (Range("orders", 0, 1, 3),))])

    found = survey(ordered(), world.topic, world.ledger, superseded)
    assert (found.tally.total, found.tally.reprocessed) == (2, 3)
    world.redriver(ordered()).run(found, lambda _: None)
    assert [record.value for record in world.offsets.produced] == [b"0", b"newer"]
    assert last(world.offsets.produced[1].headers, "tidegate-generation") == b"b1/3"

    everything = ordered(reprocessed=True, again=True)
    world.redriver(everything).run(survey(everything, world.topic, world.ledger, superseded), lambda _: None)
    assert len(world.offsets.produced) == 2 + 5


def test_letters_of_replays_stay_since_the_output_may_have_their_records(world):
    world.put(2)
    world.topic.put(b"replayed", *told(offset=1), ("tidegate-replay", b"orders-replay-0123abcd"))
    found = survey(ordered(), world.topic, world.ledger)
    assert (found.tally.total, found.tally.replayed, found.tally.to_json()["skipped"]["replayed"]) == (2, 1, 1)
    (said,) = left_out("orders", found.tally)
    assert said.startswith("1 are of replays")
    world.run()
    assert world.values == [b"0", b"1"]
    world.run(replayed=True)
    assert world.values == [b"0", b"1", b"replayed"]


def test_letters_wait_for_the_end_of_a_reprocess_that_may_have_made_rows_of_them(world):
    world.put(3)
    superseded = Superseded([ReprocessedBatch("b1", 2, (Range("orders", 0, 1, 3),), is_open=True)])
    found = survey(ordered(), world.topic, world.ledger, superseded)
    assert (found.tally.total, found.tally.reprocessed, found.tally.being_reprocessed) == (1, 0, {"b1": 2})
    assert found.tally.to_json()["skipped"]["being_reprocessed"] == 2
    (said,) = left_out("orders", found.tally)
    assert said.startswith("2 are of batches whose reprocess has begun and hasn't ended")
    assert "`tidegate reprocess orders --batch ID` (b1)" in said
    everything = survey(ordered(reprocessed=True), world.topic, world.ledger, superseded)
    assert everything.tally.total == 3


class Crash(Exception):  # noqa: N818 - not an error of anything
    """The process ends here."""


def effects() -> list[str]:
    """Every instant before and after a call of a redrive of two chunks, in order."""
    seen: list[str] = []
    world = World()
    world.put(4)
    order = ordered()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redriver, "_MOST_LETTERS", 2)
        world.redriver(order, seen.append).run(survey(order, world.topic, world.ledger), lambda _: None)
    return seen


POINTS = effects()
BETWEEN = [number for number, point in enumerate(POINTS) if point.startswith("after")]  # the others come right behind


def test_the_effects_are_those_of_the_protocol():
    begin = ["take_turn", "acquire", "last_token", "settle", "produce"]
    chunk = ["marks", "check_turn", "acquire", "last_token", "note", "produce", "mark"]
    calls = [point.removeprefix("after ") for point in POINTS if point.startswith("after")]
    assert calls == [*begin, *chunk, *chunk]


@pytest.mark.parametrize("number", range(len(POINTS)), ids=[f"{n} {point}" for n, point in enumerate(POINTS)])
def test_after_a_crash_the_next_redrive_brings_each_record_once(world, number):
    world.put(4)
    order = ordered(by="me")
    crash_at(world, order, number)
    before = len(world.values)
    second = world.run()
    assert sorted(world.values) == [b"0", b"1", b"2", b"3"]
    settled = second.settled
    assert settled.unknown == 0
    assert second.done.total == 4 - before
    assert world.run().done.redriven_before == 4


def crash_at(world: World, order: RedriveRequest, number: int) -> None:
    left = iter(range(number))

    def crash(_: str) -> None:
        if next(left, None) is None:
            raise Crash

    with pytest.raises(Crash):
        world.redriver(order, crash).run(survey(order, world.topic, world.ledger), lambda _: None)


@pytest.mark.parametrize("number", range(len(POINTS)), ids=[f"{n} {point}" for n, point in enumerate(POINTS)])
def test_whoever_is_overtaken_at_any_point_is_shut_out_and_doubles_nothing(world, number):
    """A whole second redrive runs at one instant of the first."""
    world.put(4)
    order = ordered()
    left = iter(range(number))
    overtaken = False

    def overtake(_: str) -> None:
        nonlocal overtaken
        if next(left, None) is None and not overtaken:
            overtaken = True
            world.run()

    first = world.redriver(order, overtake)
    with suppress(StaleError):
        first.run(survey(order, world.topic, world.ledger), lambda _: None)
    assert overtaken
    assert sorted(world.values) == [b"0", b"1", b"2", b"3"]
    assert world.run().done.redriven_before == 4
    assert sorted(world.values) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("first", BETWEEN)
@pytest.mark.parametrize("second", BETWEEN[2:])
def test_nor_where_the_second_one_dies_while_the_first_sleeps_and_a_third_finds_out(first, second):
    world = World()
    world.put(4)
    order = ordered()
    left = iter(range(first))
    overtaken = False

    def overtake(_: str) -> None:
        nonlocal overtaken
        if next(left, None) is None and not overtaken:
            overtaken = True
            with suppress(pytest.fail.Exception):  # it had less to do and came to its end
                crash_at(world, order, second)

    with suppress(StaleError):
        world.redriver(order, overtake).run(survey(order, world.topic, world.ledger), lambda _: None)
    world.run()
    assert sorted(world.values) == [b"0", b"1", b"2", b"3"]
    assert world.run().done.redriven_before == 4


@pytest.mark.parametrize("first", BETWEEN)
@pytest.mark.parametrize("second", BETWEEN)
def test_nor_where_two_take_turns_in_running(first, second):
    """The first one runs to a point, the second one to one of its own, then the first to its end, then the second."""
    world = World()
    world.put(4)
    runs = [Paused(world, first), Paused(world, second)]
    with ThreadPoolExecutor(2) as pool:
        for run in runs:
            run.start(pool)
        for run in runs:
            run.go_on()
    world.run()
    assert sorted(world.values) == [b"0", b"1", b"2", b"3"]
    assert world.run().done.redriven_before == 4


class Paused:
    """A redrive in a thread that stops at one of its effects until it may go on."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._left = iter(range(number))
        self._stopped = Event()
        self._may_go_on = Event()

    def start(self, pool: ThreadPoolExecutor) -> None:
        """Run as far as the point, or to the end."""
        self._running = pool.submit(self._run)
        self._running.add_done_callback(lambda _: self._stopped.set())
        assert self._stopped.wait(SECONDS)

    def go_on(self) -> None:
        """Run to the end."""
        self._may_go_on.set()
        self._running.result(SECONDS)

    def _run(self) -> None:
        order = ordered()
        with suppress(StaleError):
            redriver = self._world.redriver(order, self._pause)
            redriver.run(survey(order, self._world.topic, self._world.ledger), lambda _: None)

    def _pause(self, _: str) -> None:
        if next(self._left, None) is None:
            self._stopped.set()
            assert self._may_go_on.wait(SECONDS)


@pytest.mark.parametrize("last_token", [None, "0" * 32, "of another tool"])
def test_what_kafka_has_forgotten_is_redriven_only_if_that_is_asked_for(world, last_token):
    world.put(2)
    crash_at(world, ordered(), POINTS.index("before mark"))
    world.offsets.expire()
    if last_token is not None:
        world.offsets.reset({TopicPartition(TOPIC, 0): 0}, last_token)
    second = world.run()
    assert second.settled == Settled(unknown=2)
    assert (second.done.total, second.done.perhaps_redriven) == (0, 2)
    world.run()
    assert world.values == [b"0", b"1"]
    assert world.run(again=True).done.total == 2
    third = world.run()
    assert (third.done.redriven_before, third.done.perhaps_redriven) == (2, 0)


def test_only_letters_before_the_ends_that_are_named_go() -> None:
    world = World()
    world.put(4)
    assert world.run(ends={0: 5}).done.total == 3  # offsets 0, 2 and 4
    assert world.values == [b"0", b"1", b"2"]
    assert world.run(ends={1: 9}).done.total == 0
    assert world.run(ends={0: 9}).done.to_json()["skipped"]["redriven_before"] == 3
