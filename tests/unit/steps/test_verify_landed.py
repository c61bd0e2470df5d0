"""Landed and staged files that have changed: nothing of them reaches the lake, and what can be is made anew."""

from dataclasses import replace

import pytest
from world import OUTPUT, World, deliver, planned

from tidegate.model.batch import Batch, Outcome, Resolution, State
from tidegate.model.errors import CorruptFileError, StaleError, StoppedError
from tidegate.operations.reset_syntax import target
from tidegate.ports import Landing, Processor
from tidegate.steps.reset_group import ResetRequest, reset_group
from tidegate.testing.effects import Effect, watched


def landed(world: World, **definition: object) -> Batch:
    world.produce(3)
    batch = planned(world.pipeline(**definition))
    assert batch is not None
    return batch


def damage(world: World, batch: Batch) -> str:
    (file,) = batch.files
    world.landing.damaged.add(file.uri)
    return file.uri


def test_a_landed_file_that_has_changed_is_landed_again_from_kafka() -> None:
    world = World()
    batch = landed(world)
    uri = damage(world, batch)
    with pytest.raises(CorruptFileError, match=rf"{uri} has changed.* next run lands its records again from Kafka"):
        world.pipeline().process(batch.id)
    assert (world.ledger.batch(batch.id).condition, world.ledger.deliveries(batch.id)) == (Outcome.ABANDONED, 0)
    assert world.processor.delivered == []
    with pytest.raises(StaleError, match="abandoned: landed files were damaged"):
        world.pipeline().settle(batch.id)
    again = deliver(world.pipeline())
    assert again is not None
    assert (again.id, again.ranges, world.published(), world.committed()) == (batch.id, batch.ranges, [(0, 3)], 3)
    assert uri not in {file.uri for file in again.files}


def test_a_landed_file_that_is_gone_is_landed_again_too() -> None:
    world = World()
    batch = landed(world)
    world.landing.files.clear()
    with pytest.raises(CorruptFileError, match="is gone"):
        world.pipeline().process(batch.id)
    assert deliver(world.pipeline()) is not None
    assert world.published() == [(0, 3)]


def test_one_whose_records_have_left_kafka_is_delivered_once_its_file_is_back() -> None:
    world = World()
    batch = landed(world)
    uri = damage(world, batch)
    world.topics.expire("orders", 2)
    with pytest.raises(
        CorruptFileError, match=r"Kafka doesn't have its records any more \(orders-0 \[0, 3\)\).*its records are lost"
    ) as lost:
        world.pipeline().process(batch.id)
    assert "group reset" not in str(lost.value)  # Kafka would have nothing to read again
    now = world.ledger.batch(batch.id)
    assert (now.state, world.ledger.deliveries(batch.id), world.processor.delivered) == (State.FAILED, 1, [])
    assert uri in (now.reason or "")
    world.landing.damaged.remove(uri)
    deliver(world.pipeline())
    assert world.published() == [(0, 3)]


def test_one_that_was_committed_on_receipt_stops_until_somebody_skips_it_and_resets_the_group() -> None:
    world = World()
    definition = {"commit_strategy": "on-receipt", "max_retries": 0}
    batch = landed(world, **definition)
    pipeline = world.pipeline(**definition)
    pipeline.receive(batch.id)
    damage(world, batch)
    with pytest.raises(
        CorruptFileError, match=r"offsets are committed already.*`tidegate group reset orders --to FILE`"
    ) as damaged:
        pipeline.process(batch.id)
    with pytest.raises(StoppedError, match="landed files were damaged"):
        pipeline.settle(batch.id)
    pipeline.clear("me", "the disk is broken", Resolution.SKIP)
    pipeline.settle(batch.id)
    _, _, lines = str(damaged.value).partition("\n")
    reset_group(pipeline, ResetRequest(target(offsets=lines), "me"))
    again = planned(pipeline)
    assert again is not None
    pipeline.receive(again.id)
    pipeline.process(again.id)
    pipeline.settle(again.id)
    assert world.published() == [(0, 3)]


def test_a_landed_file_that_changes_while_the_job_runs_fails_the_delivery_and_is_landed_again() -> None:
    world = World()
    batch = landed(world)

    class Changing:
        def before(self, effect: Effect) -> None:
            """Nothing."""

        def after(self, effect: Effect) -> None:
            if effect == Effect.of(Processor.run):
                damage(world, batch)

    with pytest.raises(CorruptFileError, match="has changed"):
        watched(world.pipeline(), Changing()).process(batch.id)
    assert world.ledger.batch(batch.id).state is State.FAILED
    with pytest.raises(CorruptFileError, match="lands its records again"):
        world.pipeline().process(batch.id)
    deliver(world.pipeline())
    assert world.published() == [(0, 3)]


def test_a_staged_file_that_has_changed_is_not_published_and_is_delivered_again() -> None:
    world = World()
    batch = landed(world)
    world.pipeline().process(batch.id)
    for attempts in world.lake.staged.values():
        for attempt, staged in attempts.items():
            attempts[attempt] = replace(staged, damage="part-0 has changed since it was written")
    with pytest.raises(CorruptFileError, match=r"part-0 has changed.* delivered again"):
        world.pipeline().settle(batch.id)
    assert (world.ledger.batch(batch.id).state, world.committed()) == (State.FAILED, 0)
    assert world.lake.published(OUTPUT, batch.next_receipt) is None
    deliver(world.pipeline())
    assert (world.published(), world.committed()) == ([(0, 3)], 3)


def test_whoever_verifies_files_that_another_run_has_replaced_abandons_nothing() -> None:
    world = World()
    batch = landed(world)
    damage(world, batch)

    class Overtaking:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Landing.verify) and world.ledger.batch(batch.id).files == batch.files:
                with pytest.raises(CorruptFileError):
                    world.pipeline().process(batch.id)
                planned(world.pipeline())

        def after(self, effect: Effect) -> None:
            """Nothing."""

    with pytest.raises(StaleError, match="somebody else went on with the batch"):
        watched(world.pipeline(), Overtaking()).process(batch.id)
    assert world.ledger.batch(batch.id).state is State.LANDED


def test_a_batch_that_is_given_up_sends_no_letters_from_a_file_that_has_changed() -> None:
    world = World()
    definition = {"failure_strategy": "dead-letter-queue", "max_retries": 0}
    world.topics.create("dead-letter-topic-orders", 1)
    batch = landed(world, **definition)
    world.processor.failures.append("no memory")
    with pytest.raises(Exception, match="no memory"):
        world.pipeline(**definition).process(batch.id)
    damage(world, batch)
    with pytest.raises(CorruptFileError, match="has changed"):
        world.pipeline(**definition).settle(batch.id)
    assert world.committed() == 0
