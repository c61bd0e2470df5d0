import pytest
from world import World, deliver, planned

from tidegate.model.batch import Outcome
from tidegate.model.errors import (
    BatchFailedError,
    CommitFailedError,
    CommitUnknownError,
    DeliveryTimeoutError,
    GroupInUseError,
    LostDataError,
    StaleError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Fence, Lake
from tidegate.testing.effects import Effect, watched
from tidegate.testing.ledger import MemoryLedger

P0 = TopicPartition("orders", 0)


def processed(world: World) -> str:
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    world.pipeline().process(batch.id)
    return batch.id


def test_a_processed_batch_is_published_and_committed_at_its_next_offset() -> None:
    world = World()
    batch = world.pipeline().settle(processed(world))
    assert batch is not None
    assert (batch.condition, world.committed(), world.published()) == (Outcome.COMMITTED, 5, [(0, 5)])
    assert not any(world.lake.staged.values())


def test_a_second_commit_changes_nothing() -> None:
    world = World()
    batch_id = processed(world)
    first = world.pipeline().settle(batch_id)
    assert world.pipeline().settle(batch_id) == first
    assert len(world.offsets.commits) == 2  # the anchor and the batch


@pytest.mark.parametrize("step", ["planned", "landed", "failed"])
def test_nothing_is_committed_before_the_job_succeeded(step: str) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    plan = pipeline.plan()
    assert plan.batch is not None
    if step != "planned":
        pipeline.land(plan.batch.id, 0)
    if step == "failed":
        world.processor.failures.append("no memory")
        with pytest.raises(BatchFailedError):
            pipeline.process(plan.batch.id)
    with pytest.raises(BatchFailedError, match=f"{step}.*" + ("no memory" if step == "failed" else "next run")):
        pipeline.settle(plan.batch.id)
    assert (world.committed(), world.published()) == (0, [])


def test_a_group_moved_by_somebody_is_not_committed_over() -> None:
    world = World()
    batch_id = processed(world)
    world.offsets.reset({P0: 2})
    with pytest.raises(StaleError, match="moved by somebody else"):
        world.pipeline().settle(batch_id)
    assert (world.committed(), world.published()) == (2, [])


def test_live_members_are_refused_by_name() -> None:
    world = World()
    batch_id = processed(world)
    world.offsets.join("console-consumer")
    with pytest.raises(GroupInUseError, match="console-consumer"):
        world.pipeline().settle(batch_id)
    world.offsets.leave("console-consumer")
    assert world.pipeline().settle(batch_id) is not None


def test_a_refused_partition_fails_the_commit_and_the_next_run_finishes_it() -> None:
    world = World(partitions=2)
    world.produce(3, partition=1)
    batch_id = processed(world)
    world.offsets.refuse(TopicPartition("orders", 1), "not authorised")
    with pytest.raises(CommitFailedError, match=r"not authorised.*partition 1"):
        world.pipeline().settle(batch_id)
    world.offsets._refusals.clear()
    assert deliver(world.pipeline()) is not None
    assert (world.committed(0), world.committed(1)) == (5, 3)
    assert len(world.lake.published_attempts) == 1


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_commit_without_an_answer_is_found_out_by_the_next_run(carried_out: bool) -> None:
    world = World()
    batch_id = processed(world)
    world.offsets.lose_answer(carried_out=carried_out)
    with pytest.raises(CommitUnknownError):
        world.pipeline().settle(batch_id)
    deliver(world.pipeline())
    assert world.ledger.batch(batch_id).outcome is Outcome.COMMITTED
    assert (world.committed(), world.published()) == (5, [(0, 5)])


def test_too_long_from_start_to_publish_publishes_nothing_and_is_delivered_again() -> None:
    world = World()
    batch_id = processed(world)
    world.clock.wait(301)
    with pytest.raises(DeliveryTimeoutError, match=r"consumer\.max\.poll\.interval\.ms"):
        world.pipeline().settle(batch_id)
    assert (world.committed(), world.published()) == (0, [])
    assert deliver(world.pipeline()) is not None
    assert world.ledger.deliveries(batch_id) == 2


def test_a_published_batch_commits_however_late() -> None:
    world = World()
    batch_id = processed(world)
    world.offsets.lose_answer(carried_out=False)
    with pytest.raises(CommitUnknownError):
        world.pipeline().settle(batch_id)
    world.clock.wait(10_000)
    assert world.pipeline().settle(batch_id) is not None


def test_staging_that_is_gone_is_delivered_again() -> None:
    world = World()
    batch_id = processed(world)
    world.lake.staged.clear()
    with pytest.raises(BatchFailedError, match="gone"):
        world.pipeline().settle(batch_id)
    assert deliver(world.pipeline()) is not None
    assert world.published() == [(0, 5)]


def test_a_second_ledger_with_the_same_group_cannot_commit_twice() -> None:
    world = World()
    other = World()
    other.__dict__.update({**world.__dict__, "ledger": other.ledger})
    batch_id = processed(world)
    twin = planned(other.pipeline())
    assert twin is not None
    assert twin.id == batch_id
    other.pipeline().process(twin.id)
    assert world.pipeline().settle(batch_id) is not None
    settled = other.pipeline().settle(twin.id)
    assert settled is not None
    assert settled.outcome is Outcome.COMMITTED
    assert world.published() == [(0, 5)]
    assert len(world.offsets.commits) == 2


def test_whoever_loses_the_fence_to_one_that_finished_the_commit_finds_it_done() -> None:
    world = World()
    batch_id = processed(world)
    other = world.pipeline()

    class Interrupted(Quiet):
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Fence.commit):
                other.settle(batch_id)

    batch = watched(world.pipeline(), Interrupted()).settle(batch_id)
    assert batch is not None
    assert (batch.condition, world.committed(), len(world.offsets.commits)) == (Outcome.COMMITTED, 5, 2)


def test_a_published_batch_that_somebody_took_out_of_the_lake_is_not_committed() -> None:
    world = World()
    batch_id = processed(world)
    world.offsets.lose_answer(carried_out=False)
    with pytest.raises(CommitUnknownError):
        world.pipeline().settle(batch_id)
    world.lake.published_attempts.clear()
    with pytest.raises(LostDataError, match=r"/batch_id=.* hasn't got it any more.*bring it back there"):
        world.pipeline().settle(batch_id)
    assert world.committed() == 0


def test_a_commit_carries_the_leader_epochs_that_were_read() -> None:
    world = World()
    world.pipeline().settle(processed(world))
    assert world.offsets.positions[P0].leader_epoch == 0


def test_what_another_ledgers_runner_has_planned_gives_way_to_what_this_one_publishes() -> None:
    world = World()
    batch_id = processed(world)
    first, other = world.pipeline(), World()

    class LostMeanwhile(Quiet):
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Lake.publish) and not other.processor.delivered:
                other.__dict__.update({**world.__dict__, "ledger": first.ledger})
                first.ledger.__dict__.update(MemoryLedger(world.clock.now).__dict__)
                world.produce(2)
                again = planned(world.pipeline())
                assert again is not None
                world.pipeline().process(again.id)

    batch = watched(first, LostMeanwhile()).settle(batch_id)
    assert batch is not None
    assert (batch.ranges[0].end, world.committed(), world.published()) == (5, 5, [(0, 5)])
    deliver(world.pipeline())
    assert (world.committed(), world.published()) == (7, [(0, 5), (5, 7)])


class Quiet:
    """A watcher that does nothing."""

    def before(self, effect: Effect) -> None:
        """Nothing."""

    def after(self, effect: Effect) -> None:
        """Nothing."""
