"""A group's positions go where a person wants them, and nothing else of the subscription does."""

import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from world import Crash, World, deliver, planned

from simulation.table import SimulatedTable, StagedBesideTable
from tidegate.cli import group as cli_group
from tidegate.cli.app import app
from tidegate.lake.log_lake import LogLake
from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import GroupInUseError, LostDataError, OvertakenError, StaleError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Fence, GroupReset, Lake, Ledger, OffsetStore, PositionChange
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.steps.anchor import AtTime, Earliest, Latest
from tidegate.steps.reset_group import By, ResetRequest, ResetResult, Target, ToOffsets, reset_group
from tidegate.testing.effects import Effect, watched
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.processor import MemoryProcessor
from tidegate.testing.topics import Record

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def read(world: World, *counts: int) -> Pipeline:
    """A pipeline that has delivered so many records of each partition."""
    pipeline = world.pipeline()
    for partition, count in enumerate(counts):
        world.produce(count, partition)
    while deliver(pipeline) is not None:
        pass
    return pipeline


def reset(pipeline: Pipeline, target: Target, **more: Any) -> ResetResult:
    return reset_group(pipeline, ResetRequest(target, "ada", **more))


def changes(done: ResetResult) -> dict[TopicPartition, tuple[int | None, int]]:
    return {change.at: (change.before, change.after) for change in done.changes}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Earliest(), {P0: (10, 2), P1: (5, 0)}),
        (Latest(), {P0: (10, 10), P1: (5, 5)}),
        (By(-3), {P0: (10, 7), P1: (5, 2)}),
        (ToOffsets({P1: 4}), {P1: (5, 4)}),
        (ToOffsets({P0: 10, P1: 0}), {P0: (10, 10), P1: (5, 0)}),
    ],
)
def test_positions_go_where_they_are_wanted(target: Target, expected: dict[TopicPartition, tuple[int, int]]) -> None:
    world = World(2)
    pipeline = read(world, 10, 5)
    world.topics.expire("orders", 2)
    assert changes(reset(pipeline, target)) == expected
    assert [world.committed(0), world.committed(1)] == [expected.get(P0, (10, 10))[1], expected.get(P1, (5, 5))[1]]


def test_what_is_read_again_comes_in_batches_of_its_own_and_what_is_passed_over_in_none() -> None:
    world = World()
    pipeline = read(world, 10)
    reset(pipeline, ToOffsets({P0: 6}))
    world.produce(2)
    deliver(pipeline)
    world.produce(4)
    reset(pipeline, Latest())
    world.produce(1)
    deliver(pipeline)
    assert world.published() == [(0, 10), (6, 12), (16, 17)]


def test_a_partition_that_is_not_named_stays_where_it_is_under_the_new_incarnation() -> None:
    world = World(3)
    pipeline = read(world, 4, 4, 4)
    before = world.offsets.positions[P0]
    done = reset(pipeline, Earliest(), partitions=[P1])
    receipts = {Receipt.parse(world.offsets.positions[at].metadata) for at in (P0, P1, P2)}
    assert changes(done) == {P1: (4, 0)}
    assert [world.committed(n) for n in range(3)] == [4, 0, 4]
    assert len(receipts) == 1
    assert str(receipts.pop()) != before.metadata
    batch = deliver(pipeline)
    assert batch is not None
    assert [(str(r.at), r.start, r.end) for r in batch.ranges if not r.is_empty] == [("orders-1", 0, 4)]


def test_the_ledger_knows_who_and_why_and_from_where_to_where() -> None:
    world = World()
    pipeline = read(world, 3)
    reset(pipeline, Earliest(), note="the price was wrong")
    (known,) = world.ledger.resets("orders", 10)
    assert known == GroupReset(
        known.id,
        "orders-lake",
        "ada",
        world.clock.now(),
        "the price was wrong",
        (PositionChange(P0, 3, 0),),
        is_done=True,
    )
    assert world.ledger.last_ends("orders", "orders-lake") == {P0: 0}


def test_a_group_without_a_position_gets_one() -> None:
    world = World(2)
    world.produce(3)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    assert changes(reset(pipeline, ToOffsets({P0: 1}))) == {P0: (None, 1)}
    deliver(pipeline)
    assert world.published() == [(1, 3)]


@pytest.mark.parametrize(
    ("reset_to", "target", "skipped", "reread"),
    [
        ("earliest", Latest(), 8, 0),  # of ten, two have expired
        ("earliest", Earliest(), 0, 0),
        ("earliest", ToOffsets({P0: 4}), 2, 0),
        ("latest", Latest(), 0, 0),
        ("latest", ToOffsets({P0: 4}), 0, 0),
        ("none", Latest(), 8, 0),
    ],
)
def test_without_a_position_what_the_next_run_would_have_read_is_passed_over(
    reset_to: str, target: Target, skipped: int, reread: int
) -> None:
    world = World()
    world.produce(10)
    world.topics.expire("orders", 2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": reset_to})
    would = reset(pipeline, target, dry_run=True)
    assert (would.skipped, would.reread) == (skipped, reread)
    assert reset(pipeline, target) == would


@pytest.mark.parametrize(
    ("target", "skipped", "reread"),
    [(Latest(), 4, 0), (Earliest(), 0, 8), (By(1), 2, 0), (ToOffsets({P0: 12, P1: 3}), 2, 2)],
)
def test_it_says_how_much_is_passed_over_and_how_much_is_read_again(target: Target, skipped: int, reread: int) -> None:
    world = World(2)
    pipeline = read(world, 10, 5)
    world.produce(2, 0)
    world.produce(2, 1)
    world.topics.expire("orders", 7)
    would = reset(pipeline, target, dry_run=True)
    assert (would.skipped, would.reread) == (skipped, reread)
    assert reset(pipeline, target) == would


@pytest.mark.parametrize("reset_to", ["earliest", "latest"])
def test_a_group_that_goes_on_for_another_one_passes_over_what_that_one_had_not_read(reset_to: str) -> None:
    world = World()
    read(world, 5)
    world.produce(3)
    world.offsets = world.kafka = MemoryOffsets("orders-other", fencing=True, topics=world.topics)
    other = world.pipeline(consumer={"group_id": "orders-other", "auto_offset_reset": reset_to})
    would = reset(other, Latest(), dry_run=True)
    assert (would.changes, would.skipped, would.reread) == ((PositionChange(P0, None, 8),), 3, 0)
    assert reset(other, ToOffsets({P0: 4})).reread == 1


def test_of_a_batch_that_is_given_up_what_was_not_published_is_passed_over_or_read_again(received: Pipeline) -> None:
    """Five records of the one partition and four of the other, also where their offsets were committed on receipt."""
    done = reset(received, ToOffsets({P0: 3}), abandon=True)
    assert (done.skipped, done.reread) == (3, 6)


def test_standing_there_already_is_no_move_and_nothing_is_noted() -> None:
    world = World()
    pipeline = read(world, 3)
    before = dict(world.offsets.positions)
    assert changes(reset(pipeline, Latest())) == {P0: (3, 3)}
    assert (world.offsets.positions, world.ledger.resets("orders", 1)) == (before, ())


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    world = World()
    pipeline = read(world, 3)
    before = dict(world.offsets.positions), world.ledger.look("orders")
    would = reset(pipeline, Earliest(), dry_run=True)
    assert (dict(world.offsets.positions), world.ledger.look("orders")) == before
    assert would == reset(pipeline, Earliest())


def test_a_dry_run_of_a_subscription_that_never_ran_claims_no_group() -> None:
    world = World()
    world.produce(3)
    would = reset(world.pipeline(), Latest(), dry_run=True)
    assert would.changes == (PositionChange(P0, None, 3),)
    assert (world.ledger.look("orders").clusters, world.ledger.group_holders("orders-lake")) == ({}, frozenset())


def test_a_dry_run_takes_over_no_group_of_a_definition_that_is_gone() -> None:
    world = World()
    read(world, 3)
    renamed = world.pipeline(name="sales")
    with pytest.raises(StaleError, match="the group is still subscription orders's, whose definition is gone"):
        reset(renamed, Earliest(), dry_run=True)
    assert world.ledger.group_holders("orders-lake") == {"orders"}
    renamed.plan()  # as the error says
    assert reset(renamed, Earliest(), dry_run=True).changes == (PositionChange(P0, 3, 0),)


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        (ToOffsets({P0: 7, P1: 99}), {}, r"orders-1 holds \[0, 5\), and 99 is asked for"),
        (By(1), {}, r"orders-0 holds \[0, 10\), and 11 is asked for"),
        (By(-6), {}, r"orders-1 holds \[0, 5\), and -1 is asked for"),
        (
            ToOffsets({TopicPartition("orders", 9): 0}),
            {},
            r"reads no orders-9 .*; `tidegate group describe orders` has all",
        ),
        (Earliest(), {"partitions": [TopicPartition("others", 0)]}, "reads no others-0"),
    ],
)
def test_what_no_partition_holds_is_refused_by_name(target: Target, more: dict[str, Any], said: str) -> None:
    world = World(2)
    pipeline = read(world, 10, 5)
    before = dict(world.offsets.positions)
    with pytest.raises(WrongDefinitionError, match=f"nothing was reset: .*{said}"):
        reset(pipeline, target, **more)
    assert (world.offsets.positions, world.ledger.resets("orders", 1)) == (before, ())


def test_a_partition_without_a_position_cannot_be_moved_by_a_number() -> None:
    world = World()
    world.produce(3)
    with pytest.raises(WrongDefinitionError, match="there is no position to move by 2 in orders-0"):
        reset(world.pipeline(), By(2))


def test_live_members_are_named() -> None:
    world = World()
    pipeline = read(world, 3)
    world.kafka.join("dashboard-1")
    with pytest.raises(GroupInUseError, match="dashboard-1"):
        reset(pipeline, Earliest())
    assert world.ledger.resets("orders", 1) == ()


def test_a_strategy_without_positions_has_none_to_reset() -> None:
    with pytest.raises(WrongDefinitionError, match="keeps no positions: there is nothing to reset"):
        reset(World().pipeline(commit_strategy="ignore"), Earliest())


def test_retry_topics_stay_unless_they_are_named() -> None:
    world = World()
    pipeline = world.pipeline(failure_strategy="delayed-retry-topic")
    for topic in pipeline.subscription.retry_topics:
        world.topics.create(topic)
    world.produce(3)
    deliver(pipeline)
    assert {change.at.topic for change in reset(pipeline, Earliest()).changes} == {"orders"}
    retried = TopicPartition(pipeline.subscription.retry_topics[0], 0)
    assert changes(reset(pipeline, Earliest(), partitions=[retried])) == {retried: (0, 0)}


# Times


@pytest.mark.parametrize(
    ("milliseconds", "asked", "expected"),
    [
        ([10, 20, 30], 20, 1),
        ([10, 20, 30], 21, 2),
        ([10, 20, 30], 31, 3),  # past the last record: the end
        ([30, 10, 20], 15, 0),  # out of order: the first in the log, whatever comes behind it
        ([10, 30, 20], 20, 1),
        ([], 5, 0),  # without records: the end
    ],
)
def test_a_time_is_the_first_record_in_the_log_at_or_after_it(
    milliseconds: list[int], asked: int, expected: int
) -> None:
    world = World()
    world.topics.produce("orders", *(Record(b"value", timestamp=each) for each in milliseconds))
    pipeline = world.pipeline()
    while deliver(pipeline) is not None:
        pass
    reset(pipeline, AtTime(datetime.fromtimestamp(asked / 1000, UTC)))
    assert world.committed() == expected


# While a batch is open


def half_way(world: World, state: State, **definition: Any) -> tuple[Pipeline, Batch]:
    """A pipeline whose batch has come so far."""
    pipeline = world.pipeline(**definition)
    world.produce(5)
    batch = pipeline.plan().batch
    assert batch is not None
    if state is not State.PLANNED:
        pipeline.land(batch.id, 0)
    if state in (State.PROCESSED, State.PUBLISHED):
        pipeline.process(batch.id)
    if state is State.PUBLISHED:
        pipeline.settle(batch.id)
    return pipeline, pipeline.ledger.batch(batch.id)


def test_a_batch_that_stopped_is_to_be_cleared_before_a_reset_or_given_up() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    world.processor.failures.append("no memory")
    run_batch(pipeline, lambda _: None)
    with pytest.raises(
        StaleError, match=r"\(stopped\): .*`tidegate clear orders`, then `tidegate run orders`, .*; or .*--abandon"
    ):
        reset(pipeline, ToOffsets({P0: 2}))


@pytest.mark.parametrize("state", [State.PLANNED, State.LANDED, State.PROCESSED])
def test_an_open_batch_is_named_and_given_up_only_if_it_may_be(state: State) -> None:
    world = World()
    pipeline, batch = half_way(world, state)
    assert batch.state is state
    with pytest.raises(StaleError, match=rf"batch {batch.id} is open \({state}\): nothing was reset.*--abandon"):
        reset(pipeline, ToOffsets({P0: 2}))
    assert world.ledger.look("orders").open == batch
    done = reset(pipeline, ToOffsets({P0: 2}), abandon=True)
    assert done.abandoned is not None
    assert (done.abandoned.id, done.abandoned.outcome) == (batch.id, Outcome.ABANDONED)
    assert "ada reset the group" in str(done.abandoned.reason)
    deliver(pipeline)
    assert world.published() == [(2, 5)]


@pytest.mark.parametrize(
    ("target", "goes_on"), [(By(0), True), (ToOffsets({P0: 2}), False), (Latest(), False)], ids=str
)
def test_only_where_the_group_stays_what_changes_have_deleted_stays_deleted(target: Target, goes_on: bool) -> None:
    world = World()
    pipeline, batch = half_way(world, State.PROCESSED)
    reset(pipeline, target, abandon=True)
    receipt = Receipt.parse(world.offsets.positions[P0].metadata)
    assert receipt is not None
    carried = {(batch.output, receipt.incarnation): batch.next_receipt} if goes_on else {}
    assert world.lake.carried_over == carried


def test_what_a_batch_that_was_given_up_had_made_is_published_by_nobody() -> None:
    world = World()
    pipeline, batch = half_way(world, State.PROCESSED)
    reset(pipeline, Latest(), abandon=True)
    with pytest.raises(StaleError):
        pipeline.settle(batch.id)
    assert (world.published(), world.committed()) == ([], 5)


def test_a_batch_that_is_published_is_committed_first() -> None:
    world = World()
    pipeline, batch = half_way(world, State.PUBLISHED, commit_strategy="manual")
    for abandon in (False, True):
        with pytest.raises(StaleError, match=r"its output is in the lake: `tidegate commit orders`, then reset"):
            reset(pipeline, Earliest(), abandon=abandon)
    pipeline.commit_open()
    reset(pipeline, Earliest())
    assert (world.committed(), world.ledger.batch(batch.id).outcome) == (0, Outcome.COMMITTED)


def test_a_batch_whose_output_was_taken_away_is_read_again_as_its_message_says(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    pipeline, batch = half_way(world, State.PUBLISHED, commit_strategy="manual")
    world.lake.published_attempts.clear()
    with pytest.raises(LostDataError) as lost:
        pipeline.commit_open()
    command = re.search("read again: `tidegate (.*?)`", str(lost.value))
    assert command is not None
    monkeypatch.setattr(cli_group, "_opened", lambda _, **__: nullcontext(pipeline))
    done = CliRunner().invoke(app, shlex.split(command[1]))
    assert done.exit_code == 0, done.output
    again = planned(pipeline)
    assert again is not None
    pipeline.process(again.id)
    pipeline.settle(again.id)
    assert (world.published(), world.ledger.batch(batch.id).outcome) == ([(0, 5)], Outcome.ABANDONED)


def test_a_position_that_was_lost_is_chosen_anew_as_its_message_says() -> None:
    world = World()
    pipeline = read(world, 5)
    world.produce(5)
    world.topics.expire("orders", 8)
    said = (
        r"or choose where by `tidegate group reset orders --to earliest --partitions orders:0`, latest or a time: the"
    )
    with pytest.raises(LostDataError, match=said):
        pipeline.plan()
    reset(pipeline, Earliest())
    deliver(pipeline)
    assert world.published() == [(0, 5), (8, 10)]


def test_a_group_without_a_start_gets_one_as_its_message_says() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "none"})
    with pytest.raises(LostDataError, match=r"`tidegate group reset orders --to earliest` gives it one"):
        pipeline.plan()
    reset(pipeline, Earliest())
    deliver(pipeline)
    assert world.published() == [(0, 5)]


@pytest.fixture(params=[True, False], ids=["known", "expired"])
def is_known(request: pytest.FixtureRequest) -> bool:
    """Whether Kafka still knows the group's positions."""
    known: bool = request.param
    return known


@pytest.fixture
def received(is_known: bool) -> Pipeline:
    """A batch of five records and four, whose offsets were committed on receipt."""
    world = World(2)
    world.produce(4, partition=1)
    pipeline, batch = half_way(world, State.LANDED, commit_strategy="on-receipt")
    pipeline.receive(batch.id)
    assert [world.committed(0), world.committed(1)] == [5, 4]
    if not is_known:
        world.offsets.expire()
    return pipeline


def test_partitions_that_are_not_named_go_back_to_where_a_batch_began_that_is_given_up(
    received: Pipeline, is_known: bool
) -> None:
    """Committed on receipt, its records are nowhere but in the landing, and the ledger knows of the commit, too."""
    preview = reset(received, ToOffsets({P0: 3}), abandon=True, dry_run=True)
    done = reset(received, ToOffsets({P0: 3}), abandon=True)
    assert changes(done) == ({P0: (5, 3), P1: (4, 0)} if is_known else {P0: (None, 3), P1: (None, 0)})
    assert changes(preview) == changes(done)
    again = planned(received)
    assert again is not None
    assert [(r.start, r.end) for r in again.ranges] == [(3, 5), (0, 4)]


def test_by_counts_from_where_a_batch_began_that_is_given_up(received: Pipeline, is_known: bool) -> None:
    done = reset(received, By(1), abandon=True)
    assert changes(done) == ({P0: (5, 1), P1: (4, 1)} if is_known else {P0: (None, 1), P1: (None, 1)})


def test_a_committer_that_slept_since_the_ledger_was_lost_publishes_nothing_any_more() -> None:
    world = World()
    pipeline, batch = half_way(world, State.PROCESSED)

    def meanwhile() -> None:
        world.lose_ledger()
        reset(world.pipeline(), ToOffsets({P0: 2}))

    with pytest.raises(StaleError):
        watched(pipeline, Just(Effect.of(Lake.publish), meanwhile)).settle(batch.id)
    deliver(world.pipeline())
    assert world.published() == [(2, 5)]


def test_a_batch_that_the_lake_has_and_a_lost_ledger_had_is_finished_first() -> None:
    world = World()
    pipeline, batch = half_way(world, State.PROCESSED)
    with pytest.raises(Crash):
        watched(pipeline, Just(Effect.of(Fence.commit))).settle(batch.id)
    world.lose_ledger()
    found = world.pipeline()
    with pytest.raises(
        StaleError, match=rf"batch {batch.id} is in the lake, and its offsets aren't committed.*run orders"
    ):
        reset(found, ToOffsets({P0: 2}))
    deliver(found)
    reset(found, Earliest())
    assert (world.published(), world.committed()) == ([(0, 5)], 0)


def test_a_position_that_stays_in_a_topic_that_was_created_again_is_refused() -> None:
    world = World(2)
    pipeline = read(world, 4, 4)
    world.topics.delete("orders")
    world.topics.create("orders", 2)
    world.produce(9)
    with pytest.raises(StaleError, match="orders was created again"):
        reset(pipeline, Earliest(), partitions=[P0])
    reset(pipeline, Earliest())
    deliver(pipeline)
    assert world.published() == [(0, 4), (0, 9)]


# Races and crashes


class Just:
    """Does something once, just before an effect; by default the process ends."""

    def __init__(self, effect: Effect, does: Any = None) -> None:
        self._effect, self._does = effect, does

    def before(self, effect: Effect) -> None:
        if effect == self._effect:
            if self._does is None:
                raise Crash
            does, self._does = self._does, lambda: None
            does()

    def after(self, effect: Effect) -> None:
        """Goes on."""


def test_a_run_that_opens_a_batch_meanwhile_is_not_pulled_away_from_under_it() -> None:
    world = World()
    pipeline = read(world, 3)
    world.produce(2)
    racing = watched(pipeline, Just(Effect.of(Ledger.begin_reset), pipeline.plan))
    with pytest.raises(OvertakenError, match="a run of this subscription has gone on meanwhile: nothing was moved"):
        reset(racing, Earliest())
    deliver(pipeline)
    assert (world.published(), world.ledger.resets("orders", 1)) == ([(0, 3), (3, 5)], ())


def test_a_batch_that_is_received_meanwhile_is_published_into_its_table_all_the_same() -> None:
    """A table's log that has come to the number of the next batch publishes none before it."""
    world = World()
    staged = StagedBesideTable()
    world.lake, world.processor = staged, MemoryProcessor(world.landing, staged, world.clock)
    table = LogLake(SimulatedTable(staged), staged)
    pipeline = replace(world.pipeline(commit_strategy="on-receipt"), lake=table)
    world.produce(3)
    run_batch(pipeline, lambda _: None)
    world.produce(2)
    received: list[str] = []

    def receive() -> None:
        batch = planned(pipeline)
        assert batch is not None
        pipeline.receive(batch.id)
        received.append(batch.id)

    racing = watched(pipeline, Just(Effect.of(OffsetStore.fence), receive))
    with pytest.raises(OvertakenError, match="a run of this subscription has gone on meanwhile: nothing was reset"):
        reset(racing, Earliest())
    pipeline.process(received[0])
    pipeline.settle(received[0])
    assert (world.published(), world.ledger.resets("orders", 1)) == ([(0, 3), (3, 5)], ())


def test_a_batch_that_is_planned_while_the_group_moves_is_abandoned_and_read_from_the_new_place() -> None:
    world = World()
    pipeline = read(world, 3)
    world.produce(2)
    racing = watched(pipeline, Just(Effect.of(Fence.commit), pipeline.plan))
    reset(racing, ToOffsets({P0: 1}))
    while deliver(pipeline) is not None:
        pass
    assert (world.published(), world.committed()) == ([(0, 3), (1, 5)], 5)


def test_of_two_resets_at_once_the_newer_counts() -> None:
    world = World()
    pipeline = read(world, 3)
    racing = watched(pipeline, Just(Effect.of(Fence.commit), lambda: reset(pipeline, ToOffsets({P0: 2}))))
    with pytest.raises(StaleError, match="newer committer"):
        reset(racing, Earliest())
    assert world.committed() == 2
    assert [(each.changes, each.is_done) for each in world.ledger.resets("orders", 5)] == [
        ((PositionChange(P0, 3, 2),), True),
        ((PositionChange(P0, 3, 0),), False),
    ]


def effects_of_a_reset() -> list[tuple[int, str]]:
    world = World()
    pipeline, _ = half_way(world, State.PROCESSED)
    seen: list[tuple[int, str]] = []

    class Listing:
        def before(self, effect: Effect) -> None:
            seen.append((len(seen), str(effect)))

        def after(self, effect: Effect) -> None:
            """Goes on."""

    reset(watched(pipeline, Listing()), ToOffsets({P0: 1}), abandon=True)
    return seen


class Ends:
    """Ends the process before or after the effect of this number."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._left, self._after = number, after

    def before(self, _: Effect) -> None:
        if self._left == 0 and not self._after:
            raise Crash

    def after(self, _: Effect) -> None:
        if self._left == 0 and self._after:
            raise Crash
        self._left -= 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("number", "effect"), effects_of_a_reset())
def test_killed_anywhere_it_moved_all_or_nothing_and_a_second_one_ends_it(
    number: int, effect: str, *, after: bool
) -> None:
    world = World(2)
    pipeline, _ = half_way(world, State.PROCESSED)
    world.produce(2, partition=1)
    with pytest.raises(Crash):
        reset(watched(pipeline, Ends(number, after=after)), ToOffsets({P0: 1, P1: 1}), abandon=True)
    assert [world.committed(0), world.committed(1)] in ([0, 0], [1, 1]), effect
    reset(pipeline, ToOffsets({P0: 1, P1: 1}), abandon=True)
    deliver(pipeline)
    assert (world.committed(0), world.committed(1), world.published()) == (5, 2, [(1, 5)])


def resets(end: int) -> Iterator[st.SearchStrategy[Target]]:
    yield st.just(Earliest())
    yield st.just(Latest())
    yield st.integers(0, end).map(lambda offset: ToOffsets({P0: offset}))


@pytest.mark.long
@given(st.data())
def test_between_two_resets_every_record_comes_once(data: st.DataObject) -> None:
    """Whatever was reset where, from there on the lake has each record, and each once, until the next reset."""
    world = World()
    pipeline = world.pipeline(consumer={"max_poll_records": 4})
    world.produce(6)
    deliver(pipeline)
    for _ in range(data.draw(st.integers(1, 4))):
        known = set(world.lake.published_attempts)
        end = world.topics.logs[P0].high
        target = data.draw(st.one_of(*resets(end)))
        reset(pipeline, target)
        start = world.committed()
        world.produce(data.draw(st.integers(0, 5)))
        while deliver(pipeline) is not None:
            pass
        new = [a.manifest.batch for key, a in world.lake.published_attempts.items() if key not in known]
        read_again = sorted(offset for batch in new for r in batch.ranges for offset in range(r.start, r.end))
        assert read_again == list(range(start or 0, world.topics.logs[P0].high))


def test_a_run_of_a_batch_that_was_planned_before_is_refused_afterwards() -> None:
    world = World()
    pipeline = world.pipeline()
    world.produce(3)
    batch = planned(pipeline)
    assert batch is not None
    reset(pipeline, Latest(), abandon=True)
    for step in (pipeline.process, pipeline.settle):
        with pytest.raises(StaleError, match=re.escape(batch.id)):
            step(batch.id)
