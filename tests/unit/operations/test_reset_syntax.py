"""Where to reset a group to, as people write it."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.operations.reset_syntax import partitions, target
from tidegate.steps.anchor import AtTime, Earliest, Latest
from tidegate.steps.reset_group import By, Target, ToOffsets

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
EIGHT = datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"to": "earliest"}, Earliest()),
        ({"to": "TRIM_HORIZON"}, Earliest()),
        ({"to": "latest"}, Latest()),
        ({"to": "LATEST"}, Latest()),
        ({"to": "2026-01-31T08:00:00Z"}, AtTime(EIGHT)),
        ({"to": "2026-01-31 08:00"}, AtTime(EIGHT)),
        ({"to": "2026-01-31T08:00:00+02:00"}, AtTime(datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=2))))),
        ({"to": "AT_TIME", "time": "2026-01-31T08:00:00Z"}, AtTime(EIGHT)),
        ({"by": 0}, By(0)),
        ({"by": -7}, By(-7)),
        ({"offsets": "orders,0,12\norders, 1 ,0\n\n"}, ToOffsets({P0: 12, P1: 0})),
        ({"offsets": 'topic,partition,offset\r\n"orders",1,3'}, ToOffsets({P1: 3})),
    ],
)
def test_words_times_numbers_and_offsets_say_where_to(said: dict[str, str], meant: Target) -> None:
    assert target(**said) == meant


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "give exactly one of to, offsets and by"),
        ({"to": "earliest", "offsets": "orders,0,1"}, "give exactly one of to, offsets and by"),
        ({"to": "AT_TIME"}, "AT_TIME and a time belong together"),
        ({"to": "latest", "time": "2026-01-31"}, "AT_TIME and a time belong together"),
        ({"to": "Earliest"}, "'Earliest' is neither earliest nor latest, nor a time"),
        ({"to": "yesterday"}, "nor a time in ISO 8601: write one of them"),
        ({"to": "yesterday", "takes_files": True}, "nor a time in ISO 8601, nor a file that is here: write one"),
        ({"to": "1700000000000"}, "as in 2026-01-31T08:00:00Z"),
        ({"offsets": ""}, "the offsets name no partition"),
        ({"offsets": "orders,0,1\norders,0"}, "offsets, line 2: 'orders,0' isn't topic,partition,offset"),
        ({"offsets": "orders,0,-1"}, "isn't topic,partition,offset"),
        ({"offsets": "orders,0,1\norders,0,2"}, "offsets, line 2: orders-0 is named twice"),
    ],
)
def test_what_says_nothing_or_two_things_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(WrongDefinitionError, match=why):
        target(**said)


def test_partitions_are_named_as_kafkas_tools_name_them() -> None:
    existing = (P0, P1, TopicPartition("others", 0))
    assert partitions(["orders"], existing) == {P0, P1}
    assert partitions(["orders:1", "others:0,7"], existing) == {
        P1,
        TopicPartition("others", 0),
        TopicPartition("others", 7),
    }
    assert partitions(["gone"], existing) == {TopicPartition("gone", 0)}
    for wrong in ("orders:", "orders:a", "a b", "orders:0,,1", ""):
        with pytest.raises(WrongDefinitionError, match="names no partitions"):
            partitions([wrong], existing)
