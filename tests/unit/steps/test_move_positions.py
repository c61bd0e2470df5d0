"""A group's positions are in one store, and only a person takes them to another."""

from dataclasses import replace
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.model.batch import Outcome
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import BatchFailedError, OvertakenError, StaleError, UnavailableError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import TopicNames
from tidegate.monitoring.health import Verdict
from tidegate.monitoring.status import status_of
from tidegate.ports import Committed, Fence, Ledger
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.move_positions import move_positions
from tidegate.testing.effects import Effect, watched
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.outbox import MemoryOutbox

AT = TopicPartition("orders", 0)
OTHER = {"after-processing": "checkpoint", "checkpoint": "after-processing"}


class TwoStores(World):
    """A world in which a subscription's positions may be in either store."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.checkpoints = MemoryOffsets("orders-lake", fencing=True, keeps_state=True)

    def pipeline(self, **definition: Any) -> Pipeline:
        made = super().pipeline(**definition)
        match made.subscription.commit_policy.store:
            case PositionStore.KAFKA:
                return replace(made, offsets=self.kafka, elsewhere=self.checkpoints)
            case PositionStore.LEDGER:
                return replace(made, offsets=self.checkpoints, elsewhere=self.kafka)
            case PositionStore.NONE:
                return replace(made, offsets=NullOffsetStore(MemoryOutbox(self.topics)), elsewhere=None)


def ranges(world: World) -> list[tuple[int, int]]:
    return world.published()


@pytest.mark.parametrize("strategy", OTHER)
def test_another_store_is_refused_until_somebody_moves_the_positions(strategy: Any) -> None:
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline(commit_strategy=strategy))
    world.produce(3)
    changed = world.pipeline(commit_strategy=OTHER[strategy])
    said = rf"has the group's positions.*strategy: {OTHER[strategy]}.*nothing was read.*tidegate offsets move orders"
    with pytest.raises(WrongDefinitionError, match=said):
        changed.plan()
    moved = move_positions(changed, "ada")
    assert moved.positions == {AT: 5}
    deliver(changed)
    assert ranges(world) == [(0, 5), (5, 8)]
    with pytest.raises(WrongDefinitionError, match="tidegate offsets move orders"):
        world.pipeline(commit_strategy=strategy).plan()


@pytest.mark.parametrize("has_state", [False, True])
def test_what_a_state_has_not_seen_of_the_positions_that_come_to_it_is_said(
    has_state: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = TwoStores()
    world.produce(4)
    deliver(world.pipeline(commit_strategy="checkpoint"))
    if has_state:
        world.checkpoints.kept = '{"records": 4}'
    back = world.pipeline(commit_strategy="after-processing")
    move_positions(back, "ada")
    world.produce(2)
    deliver(back)
    move_positions(world.pipeline(commit_strategy="checkpoint"), "ada")
    assert ("2 offsets that were read meanwhile aren't in the transform's state" in caplog.text) is has_state


@pytest.mark.parametrize("is_open", [False, True])
def test_status_goes_by_the_store_that_has_the_positions_and_says_what_a_run_would(is_open: bool) -> None:
    world = TwoStores()
    world.produce(4)
    deliver(world.pipeline(commit_strategy="checkpoint"))
    back = world.pipeline(commit_strategy="after-processing")
    move_positions(back, "ada")
    world.produce(2)
    deliver(back)
    world.produce(1)
    if is_open:
        planned(back)
    changed = world.pipeline(commit_strategy="checkpoint")
    with pytest.raises(WrongDefinitionError) as refused:
        changed.plan()
    found = status_of(changed, 1)
    assert ([each.verdict for each in found.findings], found.lag) == ([Verdict.STALLED], 1)
    assert [position.committed for position in found.positions] == [6]
    assert found.findings[0].reason.removeprefix("no run begins: ") in str(refused.value)
    assert found.findings[0].action in str(refused.value)


def test_back_and_forth_nothing_is_lost_and_nothing_comes_twice() -> None:
    world = TwoStores(2)
    strategies: list[Any] = ["after-processing", "checkpoint", "throttled", "checkpoint", "latest"]
    moved = ""
    for strategy in strategies:
        world.produce(3)
        world.produce(1, partition=1)
        pipeline = world.pipeline(commit_strategy=strategy)
        store = pipeline.subscription.commit_policy.store
        if moved and store != moved:
            move_positions(pipeline, "ada")
        moved = store
        deliver(pipeline)
    assert ranges(world) == [(3 * n, 3 * n + 3) for n in range(5)]


def test_kafka_goes_on_behind_what_was_given_up_under_checkpoint() -> None:
    """Given up, a batch leaves nothing in the lake by which stale positions could be brought forward."""
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline())
    world.produce(3)
    world.processor.failures.append("no memory")
    giving_up = world.pipeline(commit_strategy="checkpoint", failure_strategy="ignore", max_retries=0)
    move_positions(giving_up, "ada")
    batch = planned(giving_up)
    assert batch is not None
    with pytest.raises(BatchFailedError):
        giving_up.process(batch.id)
    giving_up.settle(batch.id)
    world.produce(2)
    assert world.committed() == 5
    move_positions(world.pipeline(), "ada")
    deliver(world.pipeline())
    assert (world.committed(), ranges(world)) == (10, [(0, 5), (8, 10)])
    world.kafka.reset({AT: 8})
    again = deliver(world.pipeline())
    assert again is not None
    assert [(r.start, r.end) for r in again.ranges] == [(8, 10)]


def test_what_a_receipt_says_moves_with_the_position() -> None:
    """What was published under it and not committed is found again."""
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline())
    world.produce(2)
    world.kafka.reset({AT: 2}, "by another tool")
    checkpoint = world.pipeline(commit_strategy="checkpoint")
    move_positions(checkpoint, "ada")
    assert checkpoint.offsets.committed([AT]) == {AT: Committed(2, "by another tool")}
    deliver(checkpoint)
    assert ranges(world) == [(0, 5), (2, 7)]


def test_a_strategy_that_keeps_positions_in_the_same_store_needs_no_move() -> None:
    world = TwoStores()
    for strategy in ("after-processing", "on-receipt", "latest", "throttled"):
        world.produce(2)
        run = world.pipeline(commit_strategy=strategy)
        batch = planned(run)
        assert batch is not None
        run.receive(batch.id)
        run.process(batch.id)
        run.settle(batch.id)
    assert ranges(world) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    with pytest.raises(StaleError, match="are in Kafka already: there is nothing to move"):
        move_positions(world.pipeline(), "ada")


def test_the_first_checkpoint_of_a_group_that_kafka_knows_is_refused_until_its_positions_are_moved() -> None:
    world = TwoStores()
    world.produce(5)
    world.kafka.reset({AT: 2})
    checkpoint = world.pipeline(commit_strategy="checkpoint")
    with pytest.raises(WrongDefinitionError, match=r"Kafka has positions of the group.*tidegate offsets move orders"):
        checkpoint.plan()
    move_positions(checkpoint, "ada")
    deliver(checkpoint)
    assert ranges(world) == [(2, 5)]


def test_a_store_that_never_had_a_position_is_left_without_a_word() -> None:
    world = TwoStores()
    first = world.pipeline(commit_strategy="checkpoint", topics=TopicNames(("later",)))
    assert first.plan().batch is None
    world.produce(5)
    deliver(world.pipeline())
    assert ranges(world) == [(0, 5)]


def test_ignore_has_no_positions_and_leaves_those_of_the_group_where_they_are() -> None:
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline())
    ignoring = world.pipeline(commit_strategy="ignore")
    assert ignoring.plan().batch is not None
    with pytest.raises(WrongDefinitionError, match="commit-strategy: ignore keeps no positions"):
        move_positions(ignoring, "ada")


@pytest.mark.parametrize("strategy", OTHER)
def test_an_open_batch_keeps_its_positions_from_being_moved(strategy: Any) -> None:
    world = TwoStores()
    world.produce(5)
    batch = planned(world.pipeline(commit_strategy=strategy))
    assert batch is not None
    changed = world.pipeline(commit_strategy=OTHER[strategy])
    with pytest.raises(WrongDefinitionError, match=f"was planned with commit-strategy: {strategy}.*{batch.id}"):
        move_positions(changed, "ada")
    deliver(world.pipeline(commit_strategy=strategy))
    assert move_positions(changed, "ada").positions == {AT: 5}


class Failing:
    """An effect that fails once, after it was carried out or before."""

    def __init__(self, effect: Effect, *, carried_out: bool) -> None:
        self.effect = effect
        self.carried_out = carried_out
        self.is_over = False

    def _fail(self, effect: Effect, *, after: bool) -> None:
        if effect == self.effect and after == self.carried_out and not self.is_over:
            self.is_over = True
            raise UnavailableError("away")

    def before(self, effect: Effect) -> None:
        self._fail(effect, after=False)

    def after(self, effect: Effect) -> None:
        self._fail(effect, after=True)


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("effect", [Effect.of(Fence.commit), Effect.of(Ledger.note_store)], ids=str)
@pytest.mark.parametrize("strategy", OTHER)
def test_a_move_that_is_interrupted_is_done_again_or_was_done(strategy: Any, effect: Effect, carried_out: bool) -> None:
    world = TwoStores(2)
    world.produce(5)
    deliver(world.pipeline(commit_strategy=strategy))
    world.produce(3)
    changed = world.pipeline(commit_strategy=OTHER[strategy])
    failing = Failing(effect, carried_out=carried_out)
    with pytest.raises(UnavailableError):
        move_positions(watched(changed, failing), "ada")
    if carried_out and effect == Effect.of(Ledger.note_store):
        with pytest.raises(StaleError, match="already"):
            move_positions(changed, "ada")
    else:
        world.produce(1)
        deliver(world.pipeline(commit_strategy=strategy))
        move_positions(changed, "ada")
    world.produce(1)
    deliver(changed)
    spans = ranges(world)
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == changed.source.watermarks([AT])[AT].end


def test_who_planned_from_the_old_store_meanwhile_is_refused() -> None:
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline())
    world.produce(3)
    changed = world.pipeline(commit_strategy="checkpoint")

    class Moving:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Ledger.open):
                move_positions(changed, "ada")

        def after(self, effect: Effect) -> None:
            """Goes on."""

    assert watched(world.pipeline(), Moving()).plan().batch is None
    deliver(changed)
    assert ranges(world) == [(0, 5), (5, 8)]


def test_a_run_that_plans_meanwhile_keeps_the_positions_where_they_are() -> None:
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline())
    world.produce(3)

    class Planning:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Ledger.note_store):
                assert world.pipeline().plan().batch is not None

        def after(self, effect: Effect) -> None:
            """Goes on."""

    with pytest.raises(OvertakenError, match=r"nothing was moved.*try again while no run is under way"):
        move_positions(watched(world.pipeline(commit_strategy="checkpoint"), Planning()), "ada")
    batch = deliver(world.pipeline())
    assert batch is not None
    assert (batch.condition, ranges(world)) == (Outcome.COMMITTED, [(0, 5), (5, 8)])


def test_status_names_what_is_to_be_done() -> None:
    world = TwoStores()
    world.produce(5)
    deliver(world.pipeline())
    changed = world.pipeline(commit_strategy="checkpoint")
    [worst, *others] = status_of(changed, 5).findings
    assert (worst.verdict, others) == (Verdict.STALLED, [])
    assert worst.reason == (
        "no run begins: Kafka has the group's positions, and commit-strategy: checkpoint keeps them in the ledger's "
        "database"
    )
    assert worst.action == "run `tidegate offsets move orders`, which takes them there, or set the strategy back"
    move_positions(changed, "ada")
    assert status_of(changed, 5).findings[0].verdict is Verdict.OK
