"""An output that this machine doesn't see, as where a disk isn't mounted: nothing is published elsewhere instead."""

from dataclasses import replace

import pytest
from world import OUTPUT, Before, Crash, World, deliver, planned

from tidegate.model.batch import State
from tidegate.model.errors import StaleError, UnavailableError
from tidegate.ports import Fence
from tidegate.steps.anchor import Earliest
from tidegate.steps.reset_group import By, ResetRequest, reset_group
from tidegate.testing.effects import watched

SAYS = rf"sees nothing in {OUTPUT}, and batch \w+ was published into it .*mount it here"


@pytest.fixture
def world() -> World:
    """One batch is published, and records wait for the next."""
    world = World()
    world.produce(5)
    assert deliver(world.pipeline()) is not None
    world.produce(5)
    return world


def test_nothing_is_planned_and_it_goes_on_once_the_output_is_back(world: World) -> None:
    world.lake.unmounted.add(OUTPUT)
    with pytest.raises(UnavailableError, match=SAYS):
        world.pipeline().plan()
    assert world.ledger.look("orders").open is None
    world.lake.unmounted.clear()
    assert deliver(world.pipeline()) is not None
    assert world.published() == [(0, 5), (5, 10)]


def test_no_delivery_counts_that_another_machine_was_to_carry_out(world: World) -> None:
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.lake.unmounted.add(OUTPUT)
    with pytest.raises(UnavailableError, match=rf"{SAYS}.*`tidegate group reset orders --by 0 --abandon` plans"):
        pipeline.process(batch.id)
    assert world.ledger.deliveries(batch.id) == 0
    world.lake.unmounted.clear()
    assert deliver(pipeline) is not None


def test_what_is_processed_is_published_where_the_output_is_seen(world: World) -> None:
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.lake.unmounted.add(OUTPUT)
    with pytest.raises(UnavailableError, match=SAYS):
        pipeline.settle(batch.id)
    world.lake.unmounted.clear()
    assert pipeline.settle(batch.id) is not None
    assert world.published() == [(0, 5), (5, 10)]


def test_a_published_batch_is_not_given_up_because_it_cannot_be_seen(world: World) -> None:
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    with pytest.raises(Crash):
        watched(pipeline, Before(Fence.commit)).settle(batch.id)
    assert world.ledger.batch(batch.id).state is State.PUBLISHED
    world.lake.unmounted.add(OUTPUT)
    with pytest.raises(UnavailableError, match=SAYS) as refused:
        pipeline.settle(batch.id)
    assert "--abandon" not in str(refused.value)
    with pytest.raises(UnavailableError, match=SAYS):
        reset_group(pipeline, ResetRequest(Earliest(), "ada", abandon=True))
    world.lake.unmounted.clear()
    with pytest.raises(StaleError, match="its output is in the lake"):
        reset_group(pipeline, ResetRequest(Earliest(), "ada", abandon=True))
    assert pipeline.settle(batch.id) is not None


def test_an_output_of_its_own_begins_anew(world: World) -> None:
    moved = replace(world.pipeline(), output="file:///elsewhere")
    world.lake.unmounted.add(OUTPUT)
    assert deliver(moved) is not None


def test_an_open_batch_of_an_output_that_was_moved_is_planned_anew_by_what_the_error_says(world: World) -> None:
    batch = planned(world.pipeline())
    assert batch is not None
    world.lake.unmounted.add(OUTPUT)
    moved = replace(world.pipeline(), output="file:///elsewhere")
    with pytest.raises(
        UnavailableError, match=r"if it was moved.*`tidegate group reset orders --by 0 --abandon` plans"
    ):
        moved.plan()
    reset_group(moved, ResetRequest(By(0), "ada", abandon=True))
    again = deliver(moved)
    assert again is not None
    assert (again.output, again.ranges) == ("file:///elsewhere", batch.ranges)
