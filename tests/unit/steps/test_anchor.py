from datetime import UTC, datetime

import pytest
from definitions import subscription

from tidegate.errors import LostDataError
from tidegate.ports import Committed
from tidegate.positions import TopicPartition
from tidegate.receipt import Receipt
from tidegate.steps.anchor import At, AtTime, Earliest, Latest, Start, anchorage, missing_topics
from tidegate.subscription import Cursor, Subscription, TopicNames, TopicPartitions, TopicPattern

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
OTHER = TopicPartition("returns", 0)
RECEIPT = Receipt("incarnation", "b1", 3)


def starts(
    definition: Subscription,
    *partitions: TopicPartition,
    committed: dict[TopicPartition, Committed] | None = None,
    missing: frozenset[str] = frozenset(),
    last_ends: dict[TopicPartition, int] | None = None,
) -> dict[TopicPartition, Start]:
    found = anchorage(definition, partitions, committed or {}, missing=missing, last_ends=last_ends or {})
    return dict(found.unanchored)


@pytest.mark.parametrize(("reset", "start"), [("earliest", Earliest()), ("latest", Latest())])
def test_first_contact_starts_by_auto_offset_reset(reset: str, start: Start) -> None:
    assert starts(subscription(consumer={"auto_offset_reset": reset}), P0) == {P0: start}


def test_none_fails_naming_the_partition() -> None:
    with pytest.raises(LostDataError, match="topic orders, partition 0"):
        starts(subscription(consumer={"auto_offset_reset": "none"}), P0)


@pytest.mark.parametrize(
    ("cursor", "start"),
    [
        (Cursor("TRIM_HORIZON"), Earliest()),
        (Cursor("LATEST"), Latest()),
        (Cursor("AT_TIME", time=datetime(2013, 1, 1, tzinfo=UTC)), AtTime(datetime(2013, 1, 1, tzinfo=UTC))),
        (Cursor("AT_OFFSET", offset=7), At(7)),
        (Cursor("AFTER_OFFSET", offset=7), At(8)),
    ],
)
def test_a_cursor_beats_auto_offset_reset_on_first_contact(cursor: Cursor, start: Start) -> None:
    assert starts(subscription(cursor=cursor, consumer={"auto_offset_reset": "none"}), P0) == {P0: start}


def test_committed_positions_of_ours_need_no_anchor_and_keep_their_receipt() -> None:
    found = anchorage(subscription(), [P0], {P0: Committed(4, str(RECEIPT))}, missing=(), last_ends={})
    assert (found.receipt, found.unanchored) == (RECEIPT, {})


def test_a_new_partition_starts_at_its_earliest_record_under_the_receipt_in_force() -> None:
    definition = subscription(consumer={"auto_offset_reset": "latest"})
    found = anchorage(definition, [P0, P1], {P0: Committed(4, str(RECEIPT))}, missing=(), last_ends={})
    assert (found.receipt, found.unanchored) == (RECEIPT, {P1: Earliest()})


def test_a_topic_that_was_missing_starts_at_its_earliest_record() -> None:
    definition = subscription(consumer={"auto_offset_reset": "latest"})
    assert starts(definition, P0, missing=frozenset({"orders"})) == {P0: Earliest()}
    assert starts(definition, P0, missing=frozenset({"returns"})) == {P0: Latest()}


def test_a_topic_listed_later_and_never_seen_starts_by_auto_offset_reset() -> None:
    definition = subscription(topics=TopicNames(("orders", "returns")), consumer={"auto_offset_reset": "latest"})
    committed = {P0: Committed(4, str(RECEIPT))}
    assert starts(definition, P0, OTHER, committed=committed) == {OTHER: Latest()}
    assert starts(definition, P0, OTHER, committed=committed, missing=frozenset({"returns"})) == {OTHER: Earliest()}


def test_a_topic_matched_later_by_a_pattern_starts_at_its_earliest_record() -> None:
    definition = subscription(topics=TopicPattern(".*"), consumer={"auto_offset_reset": "latest"})
    assert starts(definition, P0, OTHER, committed={P0: Committed(4, str(RECEIPT))}) == {OTHER: Earliest()}
    assert starts(definition, P0) == {P0: Latest()}
    assert starts(definition, P0, missing=frozenset({".*"})) == {P0: Earliest()}


def test_a_foreign_move_is_honoured_under_a_new_incarnation() -> None:
    committed = {P0: Committed(4), P1: Committed(9, str(RECEIPT))}
    found = anchorage(subscription(), [P0, P1], committed, missing=(), last_ends={})
    assert found.receipt.incarnation != RECEIPT.incarnation
    assert found.unanchored == {P0: At(4), P1: At(9)}


def test_offsets_that_vanished_go_on_from_the_ledger() -> None:
    definition = subscription(consumer={"auto_offset_reset": "latest"})
    assert starts(definition, P0, last_ends={P0: 70}) == {P0: At(70)}


def test_two_first_contacts_never_share_an_incarnation() -> None:
    drawn = {anchorage(subscription(), [P0], {}, missing=(), last_ends={}).receipt.incarnation for _ in range(100)}
    assert len(drawn) == 100


def test_missing_topics_of_each_selection() -> None:
    assert missing_topics(TopicNames(("orders", "returns")), {"orders"}) == {"returns"}
    assert missing_topics(TopicPartitions({"orders": (0,)}), set()) == {"orders"}
    assert missing_topics(TopicPattern("o.*"), set()) == {"o.*"}
    assert missing_topics(TopicPattern("o.*"), {"orders"}) == set()
