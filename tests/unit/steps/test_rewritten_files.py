"""A batch whose output can't be part of the table as it is now: it is delivered again."""

from dataclasses import replace
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Batch, State
from tidegate.model.errors import (
    CorruptFileError,
    MisfitError,
    PartitioningError,
    RewrittenFilesError,
    StoppedError,
    WrongDefinitionError,
)
from tidegate.runtime.pipeline import Pipeline


def processed(pipeline: Pipeline) -> Batch:
    """Plan, land and process."""
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    return batch


def test_the_batch_is_delivered_again_and_nothing_is_committed_meanwhile() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(max_retries=1)
    batch = processed(pipeline)
    publish = world.lake.publish

    def compacted(*_: Any) -> None:
        raise RewrittenFilesError("files that a batch replaces aren't in the table any more")

    world.lake.publish = compacted  # type: ignore[method-assign]
    with pytest.raises(RewrittenFilesError):
        pipeline.settle(batch.id)
    assert world.ledger.batch(batch.id).state is State.FAILED
    assert "aren't in the table any more" in (world.ledger.batch(batch.id).reason or "")
    assert (world.published(), world.committed()) == ([], 0)
    world.lake.publish = publish  # type: ignore[method-assign]
    assert deliver(world.pipeline(max_retries=1)) is not None
    assert (world.published(), world.committed()) == ([(0, 3)], 3)


def test_a_batch_whose_rows_dont_fit_the_table_is_delivered_again_by_what_was_mended() -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders")
    world.produce(3)
    pipeline = world.pipeline(max_retries=0, failure_strategy="dead-letter-queue")
    batch = processed(pipeline)
    publish = world.lake.publish

    def refused(*_: Any) -> None:
        raise MisfitError("the files don't fit the table")

    world.lake.publish = refused  # type: ignore[method-assign]
    with pytest.raises(MisfitError, match=r"(?s)don't fit.*group reset orders --by 0 --abandon"):
        pipeline.settle(batch.id)
    assert world.ledger.batch(batch.id).state is State.FAILED
    with pytest.raises(StoppedError, match=r"don't fit the table.*its records aren't to blame"):
        pipeline.settle(batch.id)
    assert (world.published(), world.committed()) == ([], 0)
    world.lake.publish = publish  # type: ignore[method-assign]
    pipeline.clear("ada", "the transform is mended")
    assert deliver(world.pipeline(max_retries=0)) is not None
    assert (world.published(), world.committed()) == ([(0, 3)], 3)


def test_a_batch_that_is_partitioned_otherwise_than_its_table_is_to_be_planned_anew_and_not_cleared() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(max_retries=0)
    batch = processed(pipeline)

    def refused(*_: Any) -> None:
        raise PartitioningError("the table is partitioned by country; set partition-by")

    world.lake.publish = refused  # type: ignore[method-assign]
    with pytest.raises(PartitioningError, match=r"once that is set, `tidegate group reset orders --by 0") as said:
        pipeline.settle(batch.id)
    assert "clear" not in str(said.value)
    with pytest.raises(StoppedError, match=r"(?s)set partition-by.*group reset orders --by 0 --abandon` plans it anew"):
        pipeline.settle(batch.id)


def test_no_batch_is_planned_for_a_table_that_is_partitioned_otherwise() -> None:
    world = World()
    world.produce(3)

    def refused(*_: Any) -> None:
        raise PartitioningError("the table is partitioned by country; set partition-by")

    is_writable = world.lake.require_writable
    world.lake.require_writable = refused  # type: ignore[method-assign]
    for step in (world.pipeline().preview, world.pipeline().plan):
        with pytest.raises(PartitioningError, match="set partition-by"):
            step()
    assert world.ledger.look("orders").open is None
    world.lake.require_writable = is_writable  # type: ignore[method-assign]
    assert deliver(world.pipeline()) is not None
    assert (world.published(), world.committed()) == ([(0, 3)], 3)


def test_a_batch_that_its_table_refuses_waits_and_says_how_it_goes_elsewhere() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline()
    batch = processed(pipeline)
    publish = world.lake.publish

    def refused(*_: Any) -> None:
        raise WrongDefinitionError("the table has deletion vectors")

    world.lake.publish = refused  # type: ignore[method-assign]
    with pytest.raises(
        WrongDefinitionError, match=r"(?s)once that is mended the next run.*reset orders --by 0 --abandon"
    ):
        pipeline.settle(batch.id)
    world.lake.publish = publish  # type: ignore[method-assign]
    delivered = len(world.processor.delivered)
    assert deliver(world.pipeline()) is not None
    assert (world.published(), len(world.processor.delivered)) == ([(0, 3)], delivered)


def test_a_batch_of_changes_whose_result_is_gone_is_delivered_again() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(max_retries=1)
    changes = replace(pipeline.subscription.processing, keys=("id",), sequence_by=("offset",))
    feed = replace(pipeline, subscription=replace(pipeline.subscription, processing=changes))
    batch = processed(pipeline)
    results = world.lake.results
    world.lake.results = lambda _staging: ()  # type: ignore[method-assign]
    with pytest.raises(CorruptFileError, match="the result of its job is gone"):
        feed.settle(batch.id)
    assert (world.ledger.batch(batch.id).state, world.published(), world.committed()) == (State.FAILED, [], 0)
    world.lake.results = results  # type: ignore[method-assign]
    assert deliver(pipeline) is not None
    assert (world.published(), world.committed()) == ([(0, 3)], 3)
