import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import (
    CommitFailedError,
    CommitUnknownError,
    LostDataError,
    StaleError,
    UnauthorizedError,
    UnavailableError,
)
from tidegate.model.manifest import Counts
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Cursor, DeadLetterQueue, TopicNames, TopicPartitions
from tidegate.ports import Committed, Lake, Loss, OffsetStore
from tidegate.testing.definitions import MemoryDefinitions
from tidegate.testing.effects import Effect, watched
from tidegate.testing.lake import StagedAttempt
from tidegate.testing.ledger import MemoryLedger

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_first_contact_commits_its_start_before_anything_is_read() -> None:
    world = World()
    world.produce(3)
    world.pipeline(consumer={"auto_offset_reset": "latest"}).plan()
    receipt = Receipt.parse(world.offsets.positions[P0].metadata)
    assert world.committed() == 3
    assert receipt is not None
    assert receipt.batch_id is None


def test_latest_does_not_lose_what_arrives_between_two_empty_polls() -> None:
    world = World()
    world.produce(2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    assert deliver(pipeline) is None
    world.produce(4)
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.ranges, batch.landed_records) == ((Range("orders", 0, 2, 6),), 4)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_ledger_that_knows_nothing_of_a_group_that_tidegate_has_committed_for_is_told(
    caplog: pytest.LogCaptureFixture, is_empty: bool
) -> None:
    world = World()
    world.produce(2)
    deliver(world.pipeline())
    world.lose_ledger()
    told = (
        "this ledger knows of no batch of group orders-lake, for which Tidegate has committed: if it wasn't lost, "
        "correct TIDEGATE_HOME or TIDEGATE_LEDGER"
    )
    if is_empty:
        assert world.pipeline(poll_timeout_ms=1).plan().why == f"there is nothing to read; {told}"
    else:
        world.produce(2)
        assert world.pipeline().plan().why == f"2 offsets planned; {told}"
    assert told in caplog.text
    deliver(world.pipeline(poll_timeout_ms=1))
    world.produce(2)
    assert world.pipeline().plan().why == "2 offsets planned"


def test_a_first_run_that_begins_behind_records_says_so_once_and_how_to_have_them_read() -> None:
    unread = "are not read: `tidegate group reset orders --to earliest --partitions orders` has them read"
    world = World()
    world.produce(2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"}, poll_timeout_ms=1)
    assert pipeline.plan().why == f"there is nothing to read; 2 offsets before where it begins {unread}"
    assert pipeline.plan().why == "there is nothing to read"
    world.topics.add_partitions("orders", 1)
    world.produce(1)
    assert pipeline.plan().why == "1 offset planned"


def test_records_before_a_cursor_are_told_beside_those_that_are_planned() -> None:
    world = World()
    world.produce(5)
    plan = world.pipeline(cursor=Cursor("AT_OFFSET", offset=3)).plan()
    assert plan.why.startswith("2 offsets planned; 3 offsets before where it begins are not read: ")


def test_a_group_that_somebody_else_had_read_for_has_left_nothing_unread() -> None:
    world = World()
    world.produce(5)
    world.offsets.reset({P0: 3})
    assert world.pipeline().plan().why == "2 offsets planned"


@pytest.mark.parametrize(("stands", "told"), [(4, "2 offsets passed over unread"), (1, "1 offset read again")])
def test_a_run_says_what_is_passed_over_or_comes_again_because_somebody_moved_the_group(stands: int, told: str) -> None:
    world = World()
    world.produce(2)
    deliver(world.pipeline())
    world.produce(4)
    world.offsets.reset({P0: stands})
    why = world.pipeline().plan().why
    assert why.endswith(f"; {told}, as somebody else moved the group: see `tidegate status orders`")


def test_an_empty_poll_takes_the_poll_timeout_and_no_longer() -> None:
    world = World()
    plan = world.pipeline(poll_timeout_ms=2000).plan()
    assert plan.batch is None
    assert 2.0 <= world.clock.monotonic() <= 2.5


def test_a_broker_that_is_away_is_an_empty_poll() -> None:
    world = World()
    world.topics.reachable = False
    assert world.pipeline(poll_timeout_ms=2000).plan().batch is None
    assert 2.0 <= world.clock.monotonic() <= 2.5


def test_a_ledger_that_is_away_is_no_empty_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def away(_: str) -> None:
        raise UnavailableError("the ledger can't be used")

    monkeypatch.setattr(world.ledger, "look", away)
    with pytest.raises(UnavailableError, match="ledger"):
        world.pipeline().plan()


def test_a_missing_topic_is_an_empty_poll_and_is_read_from_its_earliest_record_once_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(topic=None)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    with caplog.at_level(logging.WARNING):
        assert pipeline.plan().batch is None
    assert "no such topic or partition yet: orders" in caplog.text
    world.topics.create("orders")
    world.produce(3)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 3


def test_a_topic_that_the_user_may_not_see_is_no_missing_one_whose_records_are_all_new() -> None:
    world = World()
    world.produce(5)
    world.topics.hidden.add("orders")
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    for ask in (pipeline.plan, pipeline.preview):
        with pytest.raises(UnauthorizedError, match=r"may not see topic orders.*let it describe and read the topic"):
            ask()
    world.topics.hidden.clear()
    assert pipeline.plan().batch is None, "latest: what was there before isn't read"
    world.produce(2)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 5, 7),)


def test_a_dead_letter_topic_that_the_user_may_not_see_is_not_to_be_created() -> None:
    world = World()
    world.produce(5)
    world.topics.create("dead")
    world.topics.hidden.add("dead")
    pipeline = world.pipeline(failure_strategy="dead-letter-queue", dead_letter_queue=DeadLetterQueue("dead"))
    with pytest.raises(UnauthorizedError, match="may not see dead-letter topic dead") as raised:
        pipeline.plan()
    assert "create" not in str(raised.value)


def test_under_ignore_a_topic_that_was_missing_is_read_from_the_cursor_like_any_other() -> None:
    world = World(topic=None)
    chosen: dict[str, Any] = {"commit_strategy": "ignore", "cursor": Cursor("LATEST"), "poll_timeout_ms": 1}
    world.offsets_of_ignore()
    assert world.pipeline(**chosen).plan().batch is None
    world.topics.create("orders", 1)
    world.produce(5)
    world.offsets_of_ignore()
    assert world.pipeline(**chosen).plan().why == "there is nothing to read"


@pytest.mark.parametrize("cursors", [{}, {"orders": {1: Cursor("LATEST")}}], ids=["none", "its own"])
def test_a_chosen_partition_that_is_missing_is_read_from_its_earliest_record_once_there(
    cursors: dict[str, dict[int, Cursor]], caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    topics = TopicPartitions({"orders": (0, 1)}, cursors)
    pipeline = world.pipeline(topics=topics, poll_timeout_ms=1, consumer={"auto_offset_reset": "latest"})
    with caplog.at_level(logging.WARNING):
        assert pipeline.plan().batch is None
    assert "no such topic or partition yet: orders[1] (subscription orders); once there" in caplog.text
    world.topics.add_partitions("orders", 1)
    world.produce(3, partition=1)
    deliver(pipeline)
    assert (world.committed(0), world.committed(1)) == (0, 3)
    assert world.ledger.look("orders").missing == frozenset()


def test_the_cap_is_split_by_lag() -> None:
    world = World(partitions=3)
    for partition, records in enumerate((101, 11, 1)):
        world.produce(records, partition)
    plan = world.pipeline(consumer={"max_poll_records": 10}).plan()
    assert plan.batch is not None
    assert [r.end - r.start for r in plan.batch.ranges] == [8, 1, 1]


def test_a_plan_is_repeated_until_its_batch_is_settled() -> None:
    world = World()
    world.produce(5)
    first = world.pipeline().plan()
    world.produce(5)
    assert world.pipeline().plan().batch == first.batch


def test_two_planners_of_one_moment_open_one_batch() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    pipeline.plan()
    late = world.ledger.look("orders")
    deliver(pipeline)
    world.produce(5)
    with pytest.raises(StaleError):
        world.ledger.open(late.open, late.version) if late.open else None
    assert deliver(pipeline) is not None


def test_a_batch_that_was_committed_unknown_to_the_ledger_is_noted() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.reset({P0: 5}, str(batch.next_receipt))
    assert pipeline.plan().batch is None
    assert world.ledger.batch(batch.id).outcome is Outcome.COMMITTED


def test_a_group_that_somebody_moved_abandons_the_batch_and_honours_the_move() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.reset({P0: 2})
    following = planned(pipeline)
    assert following is not None
    abandoned = world.ledger.batch(batch.id)
    assert abandoned.outcome is Outcome.ABANDONED
    assert "moved by somebody else" in (abandoned.reason or "")
    assert following.ranges == (Range("orders", 0, 2, 5),)
    assert following.receipt.incarnation != batch.receipt.incarnation
    assert len(world.lake.abandoned) == 1


def test_a_replay_by_kafkas_own_tool_is_read_again_as_a_new_batch() -> None:
    world = World()
    world.produce(5)
    first = deliver(world.pipeline())
    world.offsets.reset({P0: 0})
    again = deliver(world.pipeline())
    assert first is not None
    assert again is not None
    assert first.ranges == again.ranges
    assert first.id != again.id


def test_offsets_that_vanished_go_on_from_the_ledger() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.offsets.expire()
    world.produce(2)
    batch = deliver(world.pipeline())
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 5, 7),)


def test_a_ledger_lost_after_the_publish_takes_the_published_ranges() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.refuse(P0, "broken")
    with pytest.raises(Exception, match="broken"):
        pipeline.settle(batch.id)
    world.offsets._refusals.clear()
    lost = World()
    lost.__dict__.update({**world.__dict__, "ledger": lost.ledger})
    world.produce(5)
    assert deliver(lost.pipeline()) is not None
    assert deliver(lost.pipeline()) is not None
    assert lost.published() == [(0, 5), (5, 10)]


def test_a_new_partition_starts_at_its_earliest_record() -> None:
    world = World()
    world.produce(2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    deliver(pipeline)
    world.topics.add_partitions("orders", 1)
    world.produce(3, partition=1)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 3
    assert world.committed(1) == 3


def test_one_new_record_on_one_of_many_partitions_is_taken_and_the_others_stay() -> None:
    world = World(partitions=20)
    pipeline = world.pipeline()
    pipeline.plan()
    world.produce(1, partition=7)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 1
    assert [world.committed(n) for n in range(20)] == [1 if n == 7 else 0 for n in range(20)]


def test_every_partition_carries_the_receipt_of_the_commit() -> None:
    world = World(partitions=3)
    world.produce(1, partition=1)
    batch = deliver(world.pipeline())
    assert batch is not None
    assert {p.metadata for p in world.offsets.positions.values()} == {str(batch.next_receipt)}


def test_an_expired_position_fails_naming_what_the_partition_holds() -> None:
    world = World()
    world.pipeline().plan()
    world.produce(9)
    world.topics.expire("orders", before=4)
    with pytest.raises(LostDataError, match=r"\[4, 9\).*partition 0, offset 0"):
        world.pipeline().plan()
    assert world.committed() == 0


def test_with_on_data_loss_reset_only_that_partition_moves() -> None:
    world = World(partitions=2)
    world.pipeline().plan()
    world.produce(9)
    world.produce(2, partition=1)
    world.topics.expire("orders", before=4)
    batch = deliver(world.pipeline(on_data_loss="reset"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 4, 9), Range("orders", 1, 0, 2))


def sought(offset: int) -> TopicPartitions:
    """Partition 0 of `orders` from this offset on."""
    return TopicPartitions({"orders": (0,)}, {"orders": {0: Cursor("AT_OFFSET", offset=offset)}})


@pytest.mark.parametrize(
    ("definition", "is_told"),
    [
        ({"topics": sought(0)}, True),
        ({"cursor": Cursor("LATEST")}, True),
        ({"topics": TopicPartitions({"orders": (0,)})}, False),
    ],
    ids=["its own cursor", "the subscription's", "none"],
)
def test_a_group_that_has_committed_ignores_cursors_with_a_line_in_the_log(
    definition: dict[str, Any], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    pipeline = world.pipeline(**definition)
    pipeline.plan()
    ignored = "cursor and assign-seek are ignored"
    with caplog.at_level(logging.INFO, "tidegate"):  # which the command line changes
        for start in (0, 2):
            world.produce(2)
            batch = deliver(pipeline)
            assert batch is not None
            assert batch.ranges == (Range("orders", 0, start, start + 2),)
            assert (ignored in caplog.text) == (is_told and start == 2)


OUTSIDE: list[dict[str, Any]] = [{"topics": sought(9)}, {"cursor": Cursor("AFTER_OFFSET", offset=8)}]


@pytest.mark.parametrize("definition", OUTSIDE, ids=["its own cursor", "the subscription's"])
def test_a_cursor_outside_of_what_the_partition_holds_commits_nothing_so_that_it_can_be_corrected(
    definition: dict[str, Any],
) -> None:
    world = World()
    world.produce(5)
    with pytest.raises(LostDataError, match=r"\[0, 5\).*partition 0, offset 9\).*; correct assign-seek or cursor"):
        world.pipeline(**definition).plan()
    assert world.committed() is None
    deliver(world.pipeline(topics=sought(2)))
    assert (world.published(), world.committed()) == ([(2, 5)], 5)


@pytest.mark.parametrize("type_", ["AT_OFFSET", "AFTER_OFFSET"])
def test_a_cursor_starts_at_or_after_its_offset_whatever_each_partition_holds(type_: Any) -> None:
    """OCI Streaming's: one offset for all partitions, of which some have dropped it and some haven't come so far."""
    world = World(partitions=3)
    for partition, count in enumerate((20, 30, 4)):
        world.produce(count, partition=partition)
    world.topics.expire("orders", before=25, partition=1)
    offset = 10 if type_ == "AT_OFFSET" else 9
    batch = deliver(world.pipeline(cursor=Cursor(type_, offset=offset)))
    assert batch is not None
    assert [(r.start, r.end) for r in batch.ranges] == [(10, 20), (25, 30), (4, 4)]


@pytest.mark.parametrize("definition", OUTSIDE, ids=["its own cursor", "the subscription's"])
def test_with_on_data_loss_reset_it_starts_at_the_earliest_record(definition: dict[str, Any]) -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline(**definition, on_data_loss="reset"))
    assert (world.published(), world.ledger.losses("orders")) == ([(0, 5)], (Loss("orders", 0, 9, 0, 5),))


def test_a_group_that_somebody_moved_out_of_range_is_not_the_cursor_s_fault() -> None:
    world = World()
    world.produce(5)
    world.offsets.reset({P0: 9})
    with pytest.raises(LostDataError, match=r"the committed position is outside .*partition 0, offset 9"):
        world.pipeline(topics=sought(2)).plan()


def test_members_share_the_partitions_as_kafkas_range_assignor_does() -> None:
    world = World(partitions=3, topic="t0")
    world.topics.create("t1", 3)
    for topic in ("t0", "t1"):
        for partition in range(3):
            world.produce(1, partition, topic)
    plan = world.pipeline(topics=TopicNames(("t0", "t1")), members=2).plan()
    assert plan.batch is not None
    shares = [[f"{tp.topic}p{tp.partition}" for tp in share] for share in plan.batch.shares]
    assert shares == [["t0p0", "t0p1", "t1p0", "t1p1"], ["t0p2", "t1p2"]]


def test_more_members_than_partitions_are_fine() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(members=4)
    assert pipeline.plan().members == (0,)
    assert deliver(pipeline) is not None


def test_an_open_batch_whose_offsets_vanished_goes_on() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    world.offsets.expire()
    world.produce(5)
    again = deliver(world.pipeline())
    assert again is not None
    assert (again.id, again.ranges, world.committed()) == (batch.id, batch.ranges, 5)


def test_the_lake_knows_of_a_batch_that_was_published_and_its_ledger_lost_so_nothing_is_delivered_again() -> None:
    world = World()
    batch = unfinished(world)
    world.ledger = MemoryLedger(world.clock.now)
    world.produce(3)
    again = deliver(world.pipeline())
    assert again is not None
    assert (again.id, again.ranges, again.rows) == (batch.id, batch.ranges, 5)
    assert (len(world.processor.delivered), world.published()) == (1, [(0, 5)])


def test_a_published_batch_is_committed_as_the_lake_has_it_whatever_another_ledger_planned() -> None:
    world = World()
    published = unfinished(world)
    world.ledger = MemoryLedger(world.clock.now)
    hidden = world.lake.published_attempts.copy()
    world.lake.published_attempts.clear()
    world.produce(3)
    world.topics.add_partitions("orders", 1)
    world.produce(2, partition=1)
    planned_anew = planned(world.pipeline())
    assert planned_anew is not None
    world.pipeline().process(planned_anew.id)
    world.lake.published_attempts.update(hidden)
    batch = world.pipeline().settle(planned_anew.id)
    assert batch is not None
    assert (batch.id, batch.ranges, world.committed()) == (published.id, published.ranges, 5)
    deliver(world.pipeline())
    assert world.published() == [(0, 5), (5, 8)]
    assert (world.committed(0), world.committed(1)) == (8, 2)


def test_partitions_that_nobody_moved_go_on_behind_what_was_published() -> None:
    world = World(partitions=2)
    world.produce(2, partition=1)
    unfinished(world)
    world.offsets.reset({P0: 1})
    batch = deliver(world.pipeline())
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 1, 5), Range("orders", 1, 2, 2))


@pytest.mark.parametrize("lose_ledger", [False, True])
def test_a_commit_that_came_to_some_partitions_only_is_finished(lose_ledger: bool) -> None:
    world = World(partitions=2)
    world.produce(5)
    world.produce(2, partition=1)
    batch = planned(world.pipeline())
    assert batch is not None
    world.pipeline().process(batch.id)
    world.offsets.refuse(P1, "broken")
    with pytest.raises(CommitFailedError):
        world.pipeline().settle(batch.id)
    assert (world.committed(0), world.committed(1)) == (5, 0)
    world.offsets._refusals.clear()
    if lose_ledger:
        world.ledger = MemoryLedger(world.clock.now)
    world.produce(1)
    world.produce(1, partition=1)
    deliver(world.pipeline())
    deliver(world.pipeline())
    assert (world.committed(0), world.committed(1)) == (6, 3)
    assert in_lake(world) == [(0, n) for n in range(6)] + [(1, n) for n in range(3)]


@pytest.mark.parametrize("lose_ledger", [False, True])
def test_a_partial_reset_repeats_that_partition_alone(lose_ledger: bool) -> None:
    world = World(partitions=2)
    world.produce(2, partition=1)
    unfinished(world)
    world.offsets.reset({P0: 3})
    if lose_ledger:
        world.ledger = MemoryLedger(world.clock.now)
    deliver(world.pipeline())
    assert (world.committed(0), world.committed(1)) == (5, 2)
    assert in_lake(world) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 3), (0, 4), (0, 4), (1, 0), (1, 1)]


@pytest.mark.parametrize("lose_ledger", [False, True])
def test_a_partition_that_appears_before_a_redelivery_waits_for_the_next_batch(lose_ledger: bool) -> None:
    world = World()
    unfinished(world)
    world.topics.add_partitions("orders", 1)
    world.produce(3, partition=1)
    if lose_ledger:
        world.ledger = MemoryLedger(world.clock.now)
    for _ in range(2):
        deliver(world.pipeline())
    assert (world.committed(0), world.committed(1)) == (5, 3)
    assert in_lake(world) == [(0, n) for n in range(5)] + [(1, n) for n in range(3)]


class JustBefore:
    """Has something happen once, just before an effect."""

    def __init__(self, effect: Effect, happens: Callable[[], object]) -> None:
        self._effect, self._happens = effect, [happens]

    def before(self, effect: Effect) -> None:
        if effect == self._effect and self._happens:
            self._happens.pop()()

    def after(self, effect: Effect) -> None:
        """Goes on."""


def test_a_committer_that_slept_through_a_lost_ledger_and_a_move_publishes_nothing_any_more() -> None:
    """No ledger knows its batch, and the partition that nobody moved is read again under another id."""
    world = World(2)
    pipeline = world.pipeline()
    world.produce(3, partition=1)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)

    def meanwhile() -> None:
        world.lose_ledger()
        world.offsets.reset({P0: 0})
        planned(world.pipeline())

    with pytest.raises(StaleError):
        watched(pipeline, JustBefore(Effect.of(Lake.publish), meanwhile)).settle(batch.id)
    deliver(world.pipeline())
    (held,) = world.lake.published_attempts.values()
    assert [(str(r.at), r.start, r.end) for r in held.manifest.batch.ranges] == [("orders-0", 0, 0), ("orders-1", 0, 3)]


def test_a_group_that_an_old_committer_of_ours_moved_back_goes_forward_again() -> None:
    world = World()
    for _ in range(3):
        world.produce(2)
        deliver(world.pipeline())
    (_, anchor), (_, first), *_ = world.offsets.commits
    for metadata, offset in ((anchor, 0), (first, 2)):
        world.offsets.reset({P0: offset}, metadata)
        assert deliver(world.pipeline(poll_timeout_ms=1000)) is None
        assert world.offsets.positions[P0] == Committed(6, world.offsets.commits[3][1])
    world.produce(1)
    assert deliver(world.pipeline()) is not None
    assert world.published() == [(0, 2), (2, 4), (4, 6), (6, 7)]


@pytest.mark.parametrize("left", [True, False], ids=["some left", "none left"])
@pytest.mark.parametrize("lose_ledger", [False, True])
def test_a_published_batch_whose_topic_was_deleted_is_committed_for_what_is_left(lose_ledger: bool, left: bool) -> None:
    world = World()
    world.topics.create("returns")
    world.produce(2, topic="returns")
    topics = TopicNames(("orders", "returns"))
    batch = unfinished(world, topics=topics)
    world.topics.delete("orders")
    if not left:
        world.topics.delete("returns")
    if lose_ledger:
        world.ledger = MemoryLedger(world.clock.now)
    assert (deliver(world.pipeline(topics=topics, poll_timeout_ms=1000)) is not None) == left
    assert world.committed(topic="returns") == (2 if left else 0)
    assert world.ledger.look("orders").open is None
    assert world.lake.published(batch.output, batch.next_receipt) is not None


def test_an_anchor_that_vanished_before_anything_was_read_is_known_to_the_ledger() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"}, poll_timeout_ms=1000)
    pipeline.plan()
    world.offsets.expire()
    world.produce(3)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 5, 8),)


def test_a_planner_that_slept_while_all_was_committed_and_expired_anchors_nothing() -> None:
    world = World()
    world.produce(5)

    class Slept(Quiet):
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(OffsetStore.fence) and not world.ledger.history("orders", 1):
                deliver(world.pipeline())
                world.offsets.expire()

    batch = deliver(watched(world.pipeline(poll_timeout_ms=1000), Slept()))
    assert batch is None
    assert (world.committed(), world.published()) == (5, [(0, 5)])


def test_a_topic_that_was_created_again_fails_naming_its_positions() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.topics.delete("orders")
    world.topics.create("orders")
    world.produce(9)
    with pytest.raises(LostDataError, match=r"created again.* \[0, 9\).*partition 0, offset 5"):
        world.pipeline().plan()
    batch = deliver(world.pipeline(on_data_loss="reset"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 0, 9),)
    assert world.ledger.losses("orders") == (Loss("orders", 0, 5, 0, 9),)
    world.produce(1)
    assert deliver(world.pipeline()) is not None


def test_a_group_that_was_reset_belongs_to_the_topic_that_is_there_now() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.topics.delete("orders")
    world.topics.create("orders")
    world.produce(9)
    world.offsets.reset({P0: 2})
    batch = deliver(world.pipeline())
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 2, 9),)


@pytest.mark.parametrize("trouble", ["expired", "deleted"])
def test_a_batch_whose_records_went_before_they_landed_is_abandoned_only_if_that_is_allowed(trouble: str) -> None:
    world = World(partitions=2)
    world.produce(5)
    plan = world.pipeline().plan()
    assert plan.batch is not None
    if trouble == "expired":
        world.topics.expire("orders", before=3)
    else:
        world.topics.delete("orders")
    with pytest.raises(LostDataError, match="partition 0, offset 0"):
        world.pipeline().plan()
    assert world.ledger.batch(plan.batch.id).state is State.PLANNED
    following = planned(world.pipeline(on_data_loss="reset"))
    assert world.ledger.batch(plan.batch.id).outcome is Outcome.ABANDONED
    assert (following is None) == (trouble == "deleted")
    if following is not None:
        assert following.ranges[0] == Range("orders", 0, 3, 5)


def test_records_that_landed_may_expire() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    world.topics.expire("orders", before=5)
    assert deliver(world.pipeline()) is not None
    assert world.published() == [(0, 5)]


def test_an_idle_group_is_committed_anew_once_a_day_under_the_receipt_in_force() -> None:
    world = World()
    world.produce(5)
    batch = deliver(world.pipeline())
    assert batch is not None
    pipeline = world.pipeline(poll_timeout_ms=1000)
    pipeline.plan()
    commits = len(world.offsets.commits)
    for _ in range(3):
        world.clock.wait(86_400)
        pipeline.plan()
        pipeline.plan()
        commits += 1
        assert len(world.offsets.commits) == commits
        assert world.offsets.commits[-1] == ({P0: 5}, str(batch.next_receipt))


LATE = "0" * 32


def test_a_run_without_records_sweeps_behind_a_crash() -> None:
    world = World()
    world.produce(5)
    batch = deliver(world.pipeline())
    assert batch is not None
    with world.landing.writer("orders", batch.id, 0) as writer:
        writer.write(())
    world.landing.files["memory:///landing/orders/" + batch.id + f"/member-0/{LATE}-0.parquet"] = ()
    world.lake.stage(f"{batch.output}/_staging/{batch.id}-{LATE}", "a", StagedAttempt(None, Counts(0, 0)))
    world.pipeline(poll_timeout_ms=1000).plan()
    assert world.landing.data_files("orders", batch.id) == {file.uri for file in batch.files}
    assert world.lake.staged_folders(batch.output) == {}


class Quiet:
    """A watcher that does nothing."""

    def before(self, effect: Effect) -> None:
        """Nothing."""

    def after(self, effect: Effect) -> None:
        """Nothing."""


def in_lake(world: World) -> list[tuple[int, int]]:
    """(partition, offset) of every record in the lake, in order."""
    batches = [published.manifest.batch for published in world.lake.published_attempts.values()]
    records = [record for batch in batches for file in batch.files for record in world.landing.files[file.uri]]
    return sorted((record.partition, record.offset) for record in records)


def unfinished(world: World, **definition: Any) -> Batch:
    """A batch of five records of partition 0 that was published, and not committed."""
    world.produce(5)
    pipeline = world.pipeline(**definition)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.lose_answer(carried_out=False)
    with pytest.raises(CommitUnknownError):
        pipeline.settle(batch.id)
    return world.ledger.batch(batch.id)


def test_one_that_was_unsubscribed_ends_its_open_batch_and_begins_none() -> None:
    world, definitions = World(), MemoryDefinitions()
    world.produce(3)
    pipeline = replace(world.pipeline(), definitions=definitions)
    opened = pipeline.plan()
    assert opened.batch is not None
    world.produce(4)
    definitions.draining.add("orders")
    assert pipeline.plan().batch == opened.batch
    assert deliver(pipeline) is not None
    assert (world.committed(), pipeline.plan().batch) == (3, None)
    definitions.draining.clear()
    assert deliver(pipeline) is not None
    assert world.committed() == 7
