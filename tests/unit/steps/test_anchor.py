from dataclasses import replace
from datetime import UTC, datetime

import pytest
from definitions import subscription

from tidegate.model.errors import LostDataError
from tidegate.model.manifest import Published
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Cursor, Subscription, TopicNames, TopicPartitions, TopicPattern
from tidegate.ports import Committed
from tidegate.steps.anchor import (
    At,
    AtOrAfter,
    AtTime,
    Earliest,
    Latest,
    ObservedOffsets,
    StartRule,
    anchorage,
    missing_names,
    reincarnation,
)

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
OTHER = TopicPartition("returns", 0)
RECEIPT = Receipt("incarnation", "b1", 3)


def known(
    committed: dict[TopicPartition, Committed] | None = None,
    *,
    published: dict[Receipt, Published] | None = None,
    last_ends: dict[TopicPartition, int] | None = None,
    missing: frozenset[str] = frozenset(),
) -> ObservedOffsets:
    return ObservedOffsets(committed or {}, published or {}, last_ends or {}, missing)


def starts(
    definition: Subscription,
    *partitions: TopicPartition,
    committed: dict[TopicPartition, Committed] | None = None,
    missing: frozenset[str] = frozenset(),
    last_ends: dict[TopicPartition, int] | None = None,
) -> dict[TopicPartition, StartRule]:
    found = anchorage(definition, partitions, known(committed, missing=missing, last_ends=last_ends))
    return dict(found.unanchored)


def in_lake(*ranges: Range) -> Published:
    return Published("b", ranges, {}, (), None, None)


def test_none_names_the_topic_where_the_group_stands_in_others_which_a_reset_of_all_would_read_again() -> None:
    definition = subscription(topics=TopicNames(("orders", "returns")), consumer={"auto_offset_reset": "none"})
    with pytest.raises(LostDataError, match=r"`tidegate group reset orders --to earliest --partitions returns` gives"):
        starts(definition, P0, OTHER, committed={P0: Committed(7, str(RECEIPT))})
    with pytest.raises(LostDataError, match=r"`tidegate group reset orders --to earliest` gives"):
        starts(definition, P0, OTHER)


@pytest.mark.parametrize(("reset", "start"), [("earliest", Earliest()), ("latest", Latest())])
def test_first_contact_starts_by_auto_offset_reset(reset: str, start: StartRule) -> None:
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
        (Cursor("AT_OFFSET", offset=7), AtOrAfter(7)),
        (Cursor("AFTER_OFFSET", offset=7), AtOrAfter(8)),
    ],
)
def test_a_cursor_beats_auto_offset_reset_on_first_contact(cursor: Cursor, start: StartRule) -> None:
    assert starts(subscription(cursor=cursor, consumer={"auto_offset_reset": "none"}), P0) == {P0: start}


SOUGHT = {0: Cursor("TRIM_HORIZON"), 1: Cursor("LATEST"), 2: Cursor("AT_OFFSET", offset=7)}


def chosen(*numbers: int) -> TopicPartitions:
    """These partitions of `orders`, those of `SOUGHT` with a cursor of their own."""
    return TopicPartitions({"orders": numbers}, {"orders": {n: SOUGHT[n] for n in numbers if n in SOUGHT}})


@pytest.mark.parametrize(("number", "start"), [(0, Earliest()), (1, Latest()), (2, At(7))])
@pytest.mark.parametrize("cursor", [None, Cursor("AT_OFFSET", offset=3)])
def test_a_partition_s_own_cursor_beats_the_subscription_s_and_auto_offset_reset(
    number: int, start: StartRule, cursor: Cursor | None
) -> None:
    definition = subscription(topics=chosen(number), cursor=cursor, consumer={"auto_offset_reset": "none"})
    assert starts(definition, TopicPartition("orders", number)) == {TopicPartition("orders", number): start}


def test_a_partition_without_a_cursor_of_its_own_has_the_subscription_s_or_auto_offset_reset() -> None:
    definition = subscription(topics=chosen(2, 3), consumer={"auto_offset_reset": "latest"})
    two, three = TopicPartition("orders", 2), TopicPartition("orders", 3)
    assert starts(definition, two, three) == {two: At(7), three: Latest()}
    assert starts(replace(definition, cursor=Cursor("TRIM_HORIZON")), two, three) == {two: At(7), three: Earliest()}


def test_a_committed_position_beats_a_partition_s_own_cursor_and_so_does_the_ledger_s() -> None:
    definition = subscription(topics=chosen(0, 1))
    assert starts(definition, P0, P1, committed={P0: Committed(4), P1: Committed(9)}) == {P0: At(4), P1: At(9)}
    assert starts(definition, P0, P1, last_ends={P0: 70, P1: 90}) == {P0: At(70), P1: At(90)}


def test_a_partition_that_is_chosen_later_starts_at_its_own_cursor() -> None:
    committed = {P0: Committed(4, str(RECEIPT))}
    assert starts(subscription(topics=chosen(0, 1)), P0, P1, committed=committed) == {P1: Latest()}
    three = TopicPartition("orders", 3)
    assert starts(subscription(topics=chosen(0, 3)), P0, three, committed=committed) == {three: Earliest()}


def test_a_position_that_is_lost_does_not_start_at_a_cursor_again() -> None:
    found = reincarnation(subscription(topics=chosen(0, 1)), [P0, P1], known({P0: Committed(4)}), "lost", lost=[P1])
    assert found.unanchored == {P0: At(4), P1: Earliest()}


def test_committed_positions_of_ours_need_no_anchor_and_keep_their_receipt() -> None:
    found = anchorage(subscription(), [P0], known({P0: Committed(4, str(RECEIPT))}))
    assert (found.receipt, found.unanchored) == (RECEIPT, {})


def test_a_new_partition_starts_at_its_earliest_record_under_the_receipt_in_force() -> None:
    definition = subscription(consumer={"auto_offset_reset": "latest"})
    found = anchorage(definition, [P0, P1], known({P0: Committed(4, str(RECEIPT))}))
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
    found = anchorage(subscription(), [P0, P1], known(committed))
    assert found.receipt.incarnation != RECEIPT.incarnation
    assert found.unanchored == {P0: At(4), P1: At(9)}


def test_offsets_that_vanished_go_on_from_the_ledger() -> None:
    definition = subscription(consumer={"auto_offset_reset": "latest"})
    assert starts(definition, P0, last_ends={P0: 70}) == {P0: At(70)}


def test_a_single_offset_that_vanished_goes_on_from_the_ledger_under_the_receipt_in_force() -> None:
    found = anchorage(subscription(), [P0, P1], known({P0: Committed(4, str(RECEIPT))}, last_ends={P0: 4, P1: 30}))
    assert (found.receipt, found.unanchored) == (RECEIPT, {P1: At(30)})


def test_a_new_partition_of_a_topic_whose_offsets_vanished_starts_at_its_earliest_record() -> None:
    definition = subscription(consumer={"auto_offset_reset": "latest"})
    assert starts(definition, P0, P1, last_ends={P0: 70}) == {P0: At(70), P1: Earliest()}


def test_within_an_incarnation_the_newest_receipt_is_in_force_and_the_others_are_anchored_under_it() -> None:
    older = Receipt("incarnation", "b0", 2)
    committed = {P0: Committed(4, str(RECEIPT)), P1: Committed(9, str(older))}
    found = anchorage(subscription(), [P0, P1], known(committed))
    assert (found.receipt, found.unanchored, found.begins_incarnation) == (RECEIPT, {P1: At(9)}, False)


def test_a_commit_that_came_to_some_partitions_only_is_finished_from_the_lake() -> None:
    older = Receipt("incarnation", "b0", 2)
    committed = {P0: Committed(4, str(RECEIPT)), P1: Committed(9, str(older))}
    published = {older: in_lake(Range("orders", 0, 0, 4), Range("orders", 1, 9, 12))}
    assert anchorage(subscription(), [P0, P1], known(committed, published=published)).unanchored == {P1: At(12)}


@pytest.mark.parametrize("at", [9, 8])
def test_a_partition_that_nobody_moved_goes_on_behind_what_was_published(at: int) -> None:
    committed = {P0: Committed(1), P1: Committed(at, str(RECEIPT))}
    published = {RECEIPT: in_lake(Range("orders", 0, 5, 7), Range("orders", 1, 9, 12))}
    found = anchorage(subscription(), [P0, P1], known(committed, published=published))
    assert found.unanchored == {P0: At(1), P1: At(12 if at == 9 else at)}
    assert found.begins_incarnation


def test_a_lost_position_starts_at_its_earliest_record_and_the_others_stay() -> None:
    committed = {P0: Committed(4, str(RECEIPT)), P1: Committed(9, str(RECEIPT))}
    found = reincarnation(subscription(), [P0, P1], known(committed), "lost", lost=[P1])
    assert found.unanchored == {P0: At(4), P1: Earliest()}
    assert found.receipt.incarnation != RECEIPT.incarnation


def test_two_first_contacts_never_share_an_incarnation() -> None:
    drawn = {anchorage(subscription(), [P0], known()).receipt.incarnation for _ in range(100)}
    assert len(drawn) == 100


def test_what_each_selection_misses() -> None:
    assert missing_names(TopicNames(("orders", "returns")), {P0}) == {"returns"}
    assert missing_names(TopicPartitions({"orders": (0, 1)}), set()) == {"orders"}
    assert missing_names(TopicPartitions({"orders": (0, 1, 3), "returns": (0,)}), {P0, OTHER}) == {
        "orders[1]",
        "orders[3]",
    }
    assert missing_names(TopicPartitions({"orders": (0,)}), {P0}) == set()
    assert missing_names(TopicPattern("o.*"), set()) == {"o.*"}
    assert missing_names(TopicPattern("o.*"), {P0}) == set()


@pytest.mark.parametrize("missing", ["orders", "orders[1]"])
def test_a_chosen_partition_that_was_missing_starts_at_its_earliest_record(missing: str) -> None:
    definition = subscription(topics=chosen(1, 2), consumer={"auto_offset_reset": "none"})
    two = TopicPartition("orders", 2)
    found = starts(definition, P1, two, missing=frozenset({missing}))
    assert found == {P1: Earliest(), two: Earliest() if missing == "orders" else At(7)}
