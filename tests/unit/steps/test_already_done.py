"""A run of a batch that has ended does nothing, and says what makes the batch once more."""

import logging

import pytest
from world import World, deliver


def test_each_step_of_a_committed_batch_does_nothing_and_names_the_command(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.produce(5)
    batch = deliver(world.pipeline())
    assert batch is not None
    before = len(world.processor.delivered), world.published(), world.committed(), world.ledger.batch(batch.id)
    pipeline = world.pipeline()
    with caplog.at_level(logging.INFO, logger="tidegate"):
        assert pipeline.land(batch.id, 0) == batch
        for step in (pipeline.process, pipeline.settle):
            caplog.clear()
            assert step(batch.id) == batch
            assert f"`tidegate reprocess orders --batch {batch.id}` makes it once more" in caplog.text
            assert "committed already: nothing is done again" in caplog.text
    assert before == (
        len(world.processor.delivered),
        world.published(),
        world.committed(),
        world.ledger.batch(batch.id),
    )


def test_of_a_batch_of_which_nothing_is_published_no_command_is_named(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.produce(1)
    world.processor.failures = ["no rate"]
    pipeline = world.pipeline(failure_strategy="ignore", max_retries=0)
    plan = pipeline.plan()
    assert plan.batch is not None
    pipeline.land(plan.batch.id, 0)
    with pytest.raises(Exception, match="no rate"):
        pipeline.process(plan.batch.id)
    pipeline.settle(plan.batch.id)
    with caplog.at_level(logging.INFO, logger="tidegate"):
        pipeline.settle(plan.batch.id)
    assert "ignored already: nothing is done again" in caplog.text
    assert "tidegate reprocess" not in caplog.text
