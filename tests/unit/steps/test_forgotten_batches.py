"""An output that has lost batches stops the next one, which says all that may be gone."""

from datetime import timedelta

import pytest
from world import World, deliver

from tidegate.model.errors import LostDataError


def after_losing_all(world: World, batches: int, pruned: int) -> str:
    """What a run says once the output has lost each of these batches, of which the ledger has lost the oldest."""
    pipeline, ids = world.pipeline(), []
    for _ in range(batches):
        world.produce(2)
        batch = deliver(pipeline)
        assert batch is not None
        ids.append(batch.id)
    for batch_id in ids[:pruned]:
        assert world.ledger.forget(batch_id, world.clock.now() + timedelta(days=1))
    world.lake.has_forgotten = lambda *_: True  # type: ignore[method-assign]
    world.produce(2)
    with pytest.raises(LostDataError) as lost:
        deliver(world.pipeline())
    return str(lost.value)


def test_all_that_the_ledger_knows_are_named() -> None:
    said = after_losing_all(World(), 3, pruned=0)
    assert ", which was published into it, nor of 2 batches before it: the table was dropped" in said
    assert "prune" not in said
    assert said.endswith("began at orders,0,0")


def test_of_those_that_were_pruned_it_is_said_that_they_may_be_gone_and_that_no_command_makes_them() -> None:
    said = after_losing_all(World(), 3, pruned=2)
    assert ", which was published into it; earlier ones, which were pruned, may be gone as well: the table was" in said
    assert "makes it again, but not those that were pruned), or go on with the table as it is" in said
    assert said.endswith("began at orders,0,4, and the pruned ones before that")
