import pytest
from world import World, deliver, planned

from tidegate.model.batch import State
from tidegate.model.errors import BatchFailedError, DeliveryTimeoutError, StaleError
from tidegate.ports import Ledger
from tidegate.testing.effects import Effect, watched
from tidegate.testing.ledger import MemoryLedger


def landed(world: World) -> str:
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    return batch.id


def test_a_processed_batch_is_not_processed_again() -> None:
    world = World()
    batch_id = landed(world)
    first = world.pipeline().process(batch_id)
    assert first is not None
    assert (first.state, first.rows, first.rejected) == (State.PROCESSED, 5, 0)
    assert world.pipeline().process(batch_id) == first
    assert len(world.processor.delivered) == 1


def test_a_failed_delivery_is_counted_and_the_next_one_is_of_the_same_files() -> None:
    world = World()
    batch_id = landed(world)
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError, match="no memory"):
        world.pipeline().process(batch_id)
    failed = world.ledger.batch(batch_id)
    assert (failed.state, failed.reason) == (State.FAILED, f"the job failed: no memory ({failed})")
    batch = deliver(world.pipeline())
    assert batch is not None
    assert batch.id == batch_id
    first, second = world.processor.delivered
    assert first.batch.files == second.batch.files
    assert first.staging != second.staging
    assert world.ledger.deliveries(batch_id) == 2


def test_records_that_nobody_accounts_for_fail_the_delivery() -> None:
    world = World()
    batch_id = landed(world)
    world.processor.lost = 1
    with pytest.raises(BatchFailedError, match="read 5 records and accounts for 4"):
        world.pipeline().process(batch_id)
    assert world.lake.published_attempts == {}


def test_with_free_accounting_a_transform_may_aggregate() -> None:
    world = World()
    batch_id = landed(world)
    world.processor.lost = 4
    batch = world.pipeline(row_accounting="free").process(batch_id)
    assert batch is not None
    assert batch.rows == 1


def test_a_job_past_the_poll_interval_is_stopped_and_delivered_again() -> None:
    world = World()
    batch_id = landed(world)
    world.processor.seconds = 400
    with pytest.raises(DeliveryTimeoutError):
        world.pipeline().process(batch_id)
    world.processor.seconds = 1
    world.processor.finish_late()
    assert deliver(world.pipeline()) is not None
    assert world.published() == [(0, 5)]


class LandedAgainMeanwhile:
    """The ledger is lost, and another run lands the batch again, in the instant in which a delivery begins."""

    def __init__(self, world: World) -> None:
        self.world = world

    def before(self, effect: Effect) -> None:
        if effect == Effect.of(Ledger.start_delivery):
            vars(self.world.ledger).update(vars(MemoryLedger(self.world.clock.now)))
            self.world.produce(2)
            assert planned(self.world.pipeline()) is not None

    def after(self, effect: Effect) -> None:
        pass


def test_a_batch_that_hasnt_landed_is_not_delivered() -> None:
    world = World()
    world.produce(5)
    batch = world.pipeline().plan().batch
    assert batch is not None
    with pytest.raises(
        BatchFailedError, match=r"hasn't landed: nothing of it is processed .* see the log of task land"
    ):
        world.pipeline().process(batch.id)
    assert world.ledger.batch(batch.id).state is State.PLANNED


def test_a_batch_that_lands_again_while_a_delivery_begins_is_not_taken_for_what_it_was() -> None:
    world = World()
    batch_id, pipeline = landed(world), world.pipeline()
    with pytest.raises(StaleError, match="landed meanwhile"):
        watched(pipeline, LandedAgainMeanwhile(world)).process(batch_id)
    assert (world.published(), world.processor.delivered) == ([], [])
    assert deliver(pipeline) is not None
    assert (world.published(), world.processor.delivered[0].records) == ([(0, 7)], 7)
