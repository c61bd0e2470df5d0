"""What is said of dead letters: counts, fields, and nothing that steers a terminal."""

import io
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from test_redriver import TOPIC, told

from tidegate.cli import dead_letters_text as showing
from tidegate.dead_letters import listing
from tidegate.dead_letters.letter import REDRIVEN_FROM, DeadLetterFilter, Settled
from tidegate.dead_letters.listing import Found, bytes_to_json, find, letter_to_json, list_letters
from tidegate.dead_letters.lock import RedriveLock
from tidegate.dead_letters.redriver import OTHERS, Redriver, RedriveRequest, Tally, survey
from tidegate.dead_letters.superseded import NONE_SUPERSEDED, Superseded
from tidegate.dead_letters.targets import Targets
from tidegate.model.offsets import Range
from tidegate.model.subscription import TopicNames
from tidegate.ports import ReprocessedBatch
from tidegate.testing.clock import MemoryClock
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.redriving import MemoryDeadLetters, MemoryRedrives


@pytest.fixture
def topic() -> MemoryDeadLetters:
    found = MemoryDeadLetters(TOPIC, others={"orders": 1})
    for number in range(5):
        found.put(
            str(number).encode(), *told(offset=number, reason="odd" if number % 2 else "even"), partition=number % 2
        )
    return found


@pytest.fixture
def ledger() -> MemoryRedrives:
    return MemoryRedrives()


def redriven(topic: MemoryDeadLetters, ledger: MemoryRedrives, wanted: DeadLetterFilter) -> None:
    order = RedriveRequest("orders", Targets(TopicNames(("orders",))), wanted, by="me")
    turns = RedriveLock(MemoryOffsets(fencing=True), topic.name)
    Redriver(order, topic, ledger, turns, MemoryClock()).run(survey(order, topic, ledger), lambda _: None)


def shown(found: listing.Listing, *, terminal: bool) -> tuple[str, str]:
    out, err = (Console(file=io.StringIO(), force_terminal=terminal, width=120, soft_wrap=True) for _ in range(2))
    showing.show_listing(found, out, err)
    return tuple(re.sub(r"\x1b\[[0-9;]*m", "", each.file.getvalue()) for each in (out, err))


def test_all_are_counted_and_the_first_ones_listed(topic, ledger):
    redriven(topic, ledger, DeadLetterFilter(reason=re.compile("odd")))
    found = list_letters(DeadLetterFilter(), 3, topic, ledger, NONE_SUPERSEDED)
    assert [line.place for line in found.lines] == ["0:0", "0:2", "0:4"]
    assert (found.count, found.redriven, found.reasons) == (5, 2, {"even": 3, "odd": 2})
    only = list_letters(DeadLetterFilter(reason=re.compile("odd")), 9, topic, ledger, NONE_SUPERSEDED)
    assert [line.mark.state for line in only.lines] == ["redriven", "redriven"]
    assert only.to_json()["letters"][0]["redrive"] | {"at": ""} == {
        "state": "redriven",
        "to": "orders",
        "by": "me",
        "at": "",
    }


def test_letters_of_batches_that_were_reprocessed_since_are_marked_unless_they_were_redriven(topic, ledger):
    redriven(topic, ledger, DeadLetterFilter(reason=re.compile("odd")))
    superseded = Superseded([ReprocessedBatch("b1", 2, (Range("orders", 0, 0, 4),))])
    found = list_letters(DeadLetterFilter(), 9, topic, ledger, superseded)
    out, err = shown(found, terminal=False)
    assert found.to_json()["reprocessed"] == 2
    assert [line.split("\t")[3][:11] for line in out.splitlines()] == [
        "reprocessed",
        "reprocessed",
        "",
        "redriven 20",
        "redriven 20",
    ]
    assert "2 of a batch that was reprocessed since: redrive leaves those out, unless --reprocessed" in err
    one = find(topic, ledger, superseded, 0, 0)
    assert (one.reprocessed, letter_to_json(one)["reprocessed"]) == (True, True)
    showing.show_letter(one, out := Console(file=io.StringIO(), width=120))
    assert "redrive:   reprocessed" in out.file.getvalue()


def test_letters_of_replays_are_marked_and_are_none_that_the_ledger_counts(topic, ledger):
    topic.put(b"x", *told(reason="odd"), ("tidegate-replay", b"orders-replay-0123abcd"))
    found = replace(list_letters(DeadLetterFilter(), 9, topic, ledger, NONE_SUPERSEDED), dead_lettered=7)
    out, err = shown(found, terminal=False)
    assert sorted(line.split("\t")[3] for line in out.splitlines()) == ["", "", "", "", "", "of a replay"]
    assert "1 of replays: redrive leaves those out, unless --replayed" in err
    assert (found.count, found.gone, found.to_json()["replayed"]) == (6, 2, 1)
    assert {line["replay"] for line in found.to_json()["letters"]} == {None, "orders-replay-0123abcd"}


def test_reasons_that_are_all_different_take_bounded_memory(topic, ledger, monkeypatch):
    monkeypatch.setattr(listing, "_MOST_REASONS", 3)
    for number in range(9):
        topic.put(b"x", *told(reason=f"number {number}"))
    found = list_letters(DeadLetterFilter(), 0, topic, ledger, NONE_SUPERSEDED)
    assert (found.lines, len(found.reasons), found.reasons[listing.OTHERS]) == ((), 4, 7 + 2)


def test_elsewhere_than_on_a_terminal_a_letter_is_a_line_of_five_fields(topic, ledger):
    topic.put(b"x", *told(reason="a\tb\nc\x1b[2J"))
    topic.put(b"x", timestamp=None)
    out, err = shown(list_letters(DeadLetterFilter(), 100, topic, ledger, NONE_SUPERSEDED), terminal=False)
    lines = [line.split("\t") for line in out.splitlines()]
    assert {len(line) for line in lines} == {5}
    assert lines[0] == ["0:0", "orders 0:0", "1970-01-01T00:00:00.000Z", "", "even"]
    assert lines[3][4] == r"a\tb\nc\x1b[2J"
    assert lines[4] == ["0:8", "unknown", "", "", ""]
    assert "7 dead letters" in err
    assert "3  even" in err


def test_letters_that_the_ledger_counts_and_the_topic_lacks_are_told(topic, ledger):
    found = list_letters(DeadLetterFilter(), 9, topic, ledger, NONE_SUPERSEDED)
    out, _ = shown(replace(found, dead_lettered=6), terminal=True)
    assert f"{TOPIC} has 1 fewer than the ledger counts rejected and dead-lettered records: its retention.ms" in out
    out, _ = shown(replace(found, dead_lettered=5), terminal=True)
    assert "fewer" not in out
    none = list_letters(DeadLetterFilter(), 9, MemoryDeadLetters(TOPIC), ledger, NONE_SUPERSEDED)
    out, _ = shown(replace(none, is_there=True, dead_lettered=11), terminal=True)
    assert f"{TOPIC} has 11 fewer than" in out


def test_a_letter_is_listed_by_its_records_time_and_says_when_it_was_produced(topic, ledger):
    record, letter = datetime(2013, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    stamp = str(round(record.timestamp() * 1000)).encode()
    topic.put(b"x", *told(), ("tidegate-timestamp", stamp), timestamp=round(letter.timestamp() * 1000))
    of_2013 = DeadLetterFilter(since=record, until=record + timedelta(days=1))
    [line] = list_letters(of_2013, 100, topic, ledger, NONE_SUPERSEDED).lines
    assert line.time == record
    assert list_letters(DeadLetterFilter(since=letter), 100, topic, ledger, NONE_SUPERSEDED).lines == ()
    place, offset = map(int, line.place.split(":"))
    one = find(topic, ledger, NONE_SUPERSEDED, place, offset)
    assert letter_to_json(one)["timestamp"] == int(stamp)
    assert letter_to_json(one)["produced_at"] == "2026-01-02T00:00:00+00:00"
    showing.show_letter(one, out := Console(file=io.StringIO(), width=120))
    assert "timestamp: 2013-01-01T00:00:00.000Z" in out.file.getvalue()
    assert "produced:  2026-01-02T00:00:00.000Z" in out.file.getvalue()


def test_on_a_terminal_reasons_are_short_and_steer_nothing(topic, ledger):
    topic.put(b"x", *told(topic="o[red]", reason="\x1b[2J[bold]" + "long " * 40))
    out, err = shown(list_letters(DeadLetterFilter(), 100, topic, ledger, NONE_SUPERSEDED), terminal=True)
    assert "\x1b" not in out
    assert "o[red] 0:7" in out
    assert r"\x1b[2J[bold]long long" in out
    assert "…" in out
    assert "6 dead letters" in out
    assert err == ""


def test_what_tells_reasons_apart_is_not_what_is_left_out_of_them(topic, ledger):
    told_of_all = f"dead-lettered to {TOPIC} after the last retry: "
    job = "the Spark job failed: NumberFormatException: [CAST_INVALID_INPUT] The value '{}' of the type STRING cannot "
    for value in ("boom", "a17"):
        topic.put(b"x", *told(reason=f"{told_of_all}{job.format(value)}" + "be cast " * 20 + f"(batch {value}1)"))
    found = list_letters(DeadLetterFilter(), 100, topic, ledger, NONE_SUPERSEDED)
    counts = [line for line in shown(found, terminal=False)[1].splitlines() if "Spark" in line]
    assert [line.split("  ")[-1][:22] for line in counts] == ["the Spark job failed: "] * 2
    for line, value in zip(counts, ("boom", "a17"), strict=True):
        assert f"NumberFormatException: [CAST_INVALID_INPUT] The value '{value}'" in line
        assert "…" in line
        assert line.endswith(f"be cast (batch {value}1)")
        assert len(line) < 180
    table, _ = shown(found, terminal=True)
    assert "after the last retry" not in table
    whole, _ = shown(found, terminal=False)
    assert whole.count(told_of_all) == 2


def test_one_letter_is_found_by_its_place(topic, ledger):
    found = find(topic, ledger, NONE_SUPERSEDED, 1, 2)
    assert (found.letter.value, found.mark, found.reprocessed) == (b"3", None, False)
    for place in [(0, 1), (0, 99), (7, 0)]:
        with pytest.raises(LookupError, match=r"holds dead-letter-topic-orders-0 \[0, 5\)"):
            find(topic, ledger, NONE_SUPERSEDED, *place)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"", {"text": ""}),
        ("é\n".encode(), {"text": "é\n"}),
        (b"\xff\x00", {"hex": "ff00", "base64": "/wA="}),
    ],
)
def test_bytes_are_text_where_they_are(value, expected):
    assert bytes_to_json(value) == expected


def test_a_whole_letter_keeps_its_headers_in_order(topic):
    letter = topic.put(None, ("b", b"1"), ("a", None), ("b", b"\xff"), *told(), key=b"k")
    document = letter_to_json(Found(letter))
    assert [header["name"] for header in document["headers"]][:3] == ["b", "a", "b"]
    assert (document["key"], document["value"], document["redrive"]) == ({"text": "k"}, None, None)
    out = Console(file=io.StringIO(), width=120)
    showing.show_letter(Found(letter), out)
    text = out.file.getvalue()
    assert "b: 0xff" in text
    assert "a: null" in text
    assert "value:     null" in text


def test_topics_that_letters_may_not_go_to_are_named_the_most_frequent_first():
    topics = {f"t{number}": number for number in range(1, 13)} | {OTHERS: 50, "__consumer_offsets": 100, "a\x1bb": 99}
    said = list(showing.left_out("orders", Tally(other_topics=Counter(topics))))
    assert (
        said[0]
        == "100 say that they came from __consumer_offsets, which Kafka keeps for itself; --to names another topic"
    )
    assert (
        said[1]
        == "99 say that they came from a\\x1bb, which orders doesn't read; --allow-topic a\\x1bb redrives them there"
    )
    assert said[2].startswith("12 say that they came from t12, which orders doesn't read")
    assert said[10:] == ["60 say that they came from other topics that orders doesn't read"]


def test_what_is_left_out_is_said():
    tally = Tally(redriven_before=1, perhaps_redriven=2, reprocessed=3, without_origin=4)
    assert [line.split()[0] for line in showing.left_out("orders", tally)] == ["1", "2", "3", "4"]
    assert "--reprocessed" in " ".join(showing.left_out("orders", tally))
    assert (
        list(showing.left_out("orders", Tally()))
        == list(showing.settled(Settled()))
        == list(showing.settled(None))
        == []
    )
    assert len(list(showing.settled(Settled(dropped=1)))) == 1
    assert REDRIVEN_FROM in " ".join(showing.left_out("orders", tally))
