import pytest
from world import World, deliver, planned

from tidegate.model.batch import Outcome, State
from tidegate.model.errors import StaleError, UnavailableError
from tidegate.model.offsets import Range


def test_a_landed_share_is_not_landed_again() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    assert pipeline.land(batch.id, 0) == batch
    assert len(world.landing.files) == 1


@pytest.mark.parametrize("member", [-1, 1, 7])
def test_a_member_that_the_batch_does_not_have_is_of_another_plan(member: int) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    plan = pipeline.plan()
    assert plan.batch is not None
    said = rf"member {member} is of another plan, this batch has 1: .*batch {plan.batch.id}"
    with pytest.raises(StaleError, match=said):
        pipeline.land(plan.batch.id, member)
    pipeline.land(plan.batch.id, 0)
    with pytest.raises(StaleError, match=said):
        pipeline.land(plan.batch.id, member)
    assert world.ledger.batch(plan.batch.id).state is State.LANDED


def test_the_batch_ends_at_its_planned_end_whatever_arrives() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    plan = pipeline.plan()
    world.produce(5)
    assert plan.batch is not None
    assert pipeline.land(plan.batch.id, 0).landed_records == 5


def test_what_the_poll_timeout_cut_short_ends_where_it_was_read_to() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    plan = pipeline.plan()
    world.topics.stick("orders", 3)
    assert plan.batch is not None
    batch = pipeline.land(plan.batch.id, 0)
    assert (batch.state, batch.ranges) == (State.LANDED, (Range("orders", 0, 0, 3),))


def test_a_standstill_while_the_broker_answers_is_an_error_that_names_the_position() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    plan = pipeline.plan()
    world.topics.stick("orders", 0)
    assert plan.batch is not None
    with pytest.raises(UnavailableError, match=r"orders-0 \[0, 5\)"):
        pipeline.land(plan.batch.id, 0)
    assert world.ledger.batch(plan.batch.id).state is State.PLANNED


def test_a_standstill_while_the_broker_is_away_is_an_empty_batch_and_is_planned_again() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    plan = pipeline.plan()
    world.topics.reachable = False
    assert plan.batch is not None
    assert pipeline.land(plan.batch.id, 0).outcome is Outcome.EMPTY
    assert pipeline.process(plan.batch.id) is None
    assert pipeline.settle(plan.batch.id) is None
    world.topics.reachable = True
    assert deliver(pipeline) is not None
    assert world.published() == [(0, 5)]


def test_gaps_are_no_records_and_move_the_position() -> None:
    world = World()
    world.produce(6)
    world.topics.remove("orders", 1, 4, 5)
    batch = planned(world.pipeline())
    assert batch is not None
    assert (batch.landed_records, batch.ranges) == (3, (Range("orders", 0, 0, 6),))


def test_positions_that_move_without_records_are_committed_without_spark() -> None:
    world = World()
    world.produce(3)
    world.topics.remove("orders", 0, 1, 2)
    assert deliver(world.pipeline()) is not None
    assert world.committed() == 3
    assert world.processor.delivered == []
