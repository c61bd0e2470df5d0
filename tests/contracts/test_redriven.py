"""What a ledger promises of redrives; the double in memory and the SQL database are held to the same."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.dead_letters.letter import Intent, RedriveStatus, Settled, TopicIdentity
from tidegate.dead_letters.ports import RedriveLedger
from tidegate.ledger.redriven import SqlRedrives
from tidegate.model.errors import StaleError
from tidegate.model.offsets import Range
from tidegate.testing.redriving import MemoryRedrives

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
IDENTITY = TopicIdentity("dead-letter-topic-orders", "id-1")

Two = tuple[RedriveLedger, RedriveLedger]


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def two(request: pytest.FixtureRequest) -> Two:
    """One ledger, as two processes hold it."""
    if request.param == "memory":
        ledger = MemoryRedrives(now=lambda: LATER)
        return ledger, ledger
    url: str = request.getfixturevalue("sqlite_ledger" if request.param == "sqlite" else "postgres_ledger")
    return SqlRedrives(url, now=lambda _: LATER), SqlRedrives(url, now=lambda _: LATER)


@pytest.fixture
def ledger(two: Two) -> RedriveLedger:
    return two[0]


def intent(token: str, *offsets: int, after: str = "t0", partition: int = 0, minutes: int = 0) -> Intent:
    to = {(partition, offset): "orders" for offset in offsets}
    return Intent(token, after, "orders", "me", NOON + timedelta(minutes=minutes), to)


def states(
    ledger: RedriveLedger, *offsets: int, identity: TopicIdentity = IDENTITY, partition: int = 0
) -> dict[int, str]:
    return {offset: mark.state for offset, mark in sorted(ledger.marks(identity, partition, offsets).items())}


def test_what_was_noted_is_begun_and_what_was_marked_redriven(two: Two) -> None:
    ours, theirs = two
    turn = ours.take_turn(IDENTITY.topic)
    ours.note(IDENTITY, turn, intent("t1", 3, 5))
    assert theirs.marks(IDENTITY, 0, [3, 4, 5]) == dict.fromkeys([3, 5], RedriveStatus("begun", "orders", "me", NOON))
    ours.mark("t1")
    assert theirs.marks(IDENTITY, 0, [5]) == {5: RedriveStatus("redriven", "orders", "me", LATER)}


def test_letters_of_another_partition_topic_or_id_are_others(ledger: RedriveLedger) -> None:
    turn = ledger.take_turn(IDENTITY.topic)
    ledger.note(IDENTITY, turn, intent("t1", 3, partition=1))
    assert states(ledger, 3, partition=1) == {3: "begun"}
    assert states(ledger, 3) == {}
    assert states(ledger, 3, partition=1, identity=TopicIdentity(IDENTITY.topic, "id-2")) == {}
    assert states(ledger, 3, partition=1, identity=TopicIdentity("other", "id-1")) == {}


def test_many_letters_are_looked_up_at_once(ledger: RedriveLedger) -> None:
    turn = ledger.take_turn(IDENTITY.topic)
    ledger.note(IDENTITY, turn, intent("t1", *range(1000)))
    assert len(ledger.marks(IDENTITY, 0, range(500, 2000))) == 500


@pytest.mark.parametrize(
    ("last_token", "settled", "state"),
    [
        ("t1", Settled(redriven=2), "redriven"),
        ("t0", Settled(dropped=2), None),
        ("t9", Settled(unknown=2), "unknown"),
        (None, Settled(unknown=2), "unknown"),
    ],
)
def test_the_standing_token_tells_what_became_of_a_chunk(
    two: Two, last_token: str | None, settled: Settled, state: str | None
) -> None:
    ours, theirs = two
    ours.note(IDENTITY, ours.take_turn(IDENTITY.topic), intent("t1", 3, 5))
    assert theirs.settle(IDENTITY, theirs.take_turn(IDENTITY.topic), last_token) == settled
    assert states(ours, 3, 5) == (dict.fromkeys([3, 5], state) if state else {})
    assert theirs.settle(IDENTITY, theirs.take_turn(IDENTITY.topic), last_token) == Settled()


def test_a_chunk_of_an_earlier_topic_of_the_name_is_settled_too(ledger: RedriveLedger) -> None:
    ledger.note(IDENTITY, ledger.take_turn(IDENTITY.topic), intent("t1", 3))
    again = TopicIdentity(IDENTITY.topic, "id-2")
    assert ledger.settle(again, ledger.take_turn(IDENTITY.topic), None) == Settled(unknown=1)


def test_what_is_marked_is_settled_already_and_other_topics_are_left_alone(ledger: RedriveLedger) -> None:
    turn = ledger.take_turn(IDENTITY.topic)
    ledger.note(IDENTITY, turn, intent("t1", 3))
    ledger.mark("t1")
    other = TopicIdentity("other", "id-3")
    ledger.note(other, ledger.take_turn("other"), intent("t2", 3))
    assert ledger.settle(IDENTITY, turn, None) == Settled()
    assert (states(ledger, 3), states(ledger, 3, identity=other)) == ({3: "redriven"}, {3: "begun"})


@pytest.mark.parametrize(
    "write",
    [
        lambda ledger, turn: ledger.note(IDENTITY, turn, intent("t1", 3)),
        lambda ledger, turn: ledger.settle(IDENTITY, turn, "t0"),
        lambda ledger, turn: ledger.check_turn(IDENTITY.topic, turn),
    ],
    ids=["note", "settle", "check_turn"],
)
def test_whoever_has_an_older_turn_is_told_and_cannot_write(
    two: Two, write: Callable[[RedriveLedger, int], object]
) -> None:
    ours, theirs = two
    turn = ours.take_turn(IDENTITY.topic)
    ours.check_turn(IDENTITY.topic, turn)
    assert theirs.take_turn(IDENTITY.topic) == turn + 1
    with pytest.raises(StaleError, match="newer redrive"):
        write(ours, turn)
    assert states(ours, 3) == {}
    assert ours.take_turn("other") == 1


def test_a_late_mark_stands_whoever_settled_the_chunk(two: Two) -> None:
    """The one who committed knows; a settlement of it as unknown was none."""
    ours, theirs = two
    ours.note(IDENTITY, ours.take_turn(IDENTITY.topic), intent("t1", 3))
    theirs.settle(IDENTITY, theirs.take_turn(IDENTITY.topic), None)
    ours.mark("t1")
    ours.mark("t1")
    ours.mark("never noted")
    assert states(theirs, 3) == {3: "redriven"}


def test_of_several_redrives_of_a_letter_the_newest_that_was_carried_out_counts(ledger: RedriveLedger) -> None:
    turn = ledger.take_turn(IDENTITY.topic)
    ledger.note(IDENTITY, turn, intent("t1", 3))
    ledger.settle(IDENTITY, turn, None)
    assert states(ledger, 3) == {3: "unknown"}
    ledger.note(IDENTITY, turn, intent("t2", 3, minutes=1))
    assert states(ledger, 3) == {3: "unknown"}
    ledger.mark("t2")
    ledger.note(IDENTITY, turn, intent("t3", 3, minutes=2))
    assert states(ledger, 3) == {3: "redriven"}


def test_letters_that_were_redriven_are_counted_once_and_within_ranges(ledger: RedriveLedger) -> None:
    turn = ledger.take_turn(IDENTITY.topic)
    for token, offsets in {"t1": (3, 5), "t2": (5, 7), "t3": (9,)}.items():
        ledger.note(IDENTITY, turn, intent(token, *offsets))
    ledger.note(IDENTITY, turn, intent("t4", 3, partition=1))
    for token in ("t1", "t2", "t4"):
        ledger.mark(token)
    topic = IDENTITY.topic
    assert ledger.redriven(IDENTITY, [Range(topic, 0, 0, 20)]) == 3
    assert ledger.redriven(IDENTITY, [Range(topic, 0, 4, 7), Range(topic, 1, 0, 20)]) == 2
    assert ledger.redriven(TopicIdentity(topic, "id-2"), [Range(topic, 0, 0, 20)]) == 0
    assert ledger.redriven(IDENTITY, []) == 0


def test_turns_taken_at_once_are_all_different(two: Two) -> None:
    two[0].take_turn(IDENTITY.topic)
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda n: two[n % 2].take_turn(IDENTITY.topic), range(20)))
    assert sorted(taken) == list(range(2, 22))
