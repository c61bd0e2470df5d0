"""Which batches are made once more: one by its id, or those that were planned in a range of time."""

from datetime import timedelta

import pytest
from world import World, deliver, planned

from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.runtime.reprocessing import chosen_batch, chosen_between, preview_document, reprocess_all
from tidegate.steps.reprocess import ReprocessRequest
from tidegate.testing.generations import MemoryGenerations

HOUR = timedelta(hours=1)


class Hourly(World):
    """A world with a batch an hour, all committed; `ids` are theirs."""

    def __init__(self, batches: int = 3) -> None:
        super().__init__()
        self.begun = self.clock.now()
        self.ids: list[str] = []
        for _ in range(batches):
            self.produce(2)
            done = deliver(self.pipeline())
            assert done is not None
            self.ids.append(done.id)
            self.clock.wait(HOUR.total_seconds())


@pytest.mark.parametrize(("start", "end", "chosen"), [(0, 9, [0, 1, 2]), (1, 2, [1]), (0, 1, [0]), (2, 9, [2])])
def test_a_range_has_the_batches_that_were_planned_in_it_the_oldest_first(
    start: int, end: int, chosen: list[int]
) -> None:
    world = Hourly()
    found = chosen_between(world.pipeline(), world.begun + start * HOUR, world.begun + end * HOUR)
    assert [batch.id for batch in found.batches] == [world.ids[each] for each in chosen]
    assert found.left_out == ()


def test_long_histories_are_looked_through() -> None:
    world = Hourly(batches=120)
    found = chosen_between(world.pipeline(), world.begun, world.begun + 3 * HOUR)
    assert [batch.id for batch in found.batches] == world.ids[:3]


def test_what_is_open_or_not_published_is_left_out_and_named() -> None:
    world = Hourly()
    world.produce(1)
    open_one = planned(world.pipeline())
    assert open_one is not None
    found = chosen_between(world.pipeline(), world.begun + 2 * HOUR, world.begun + 9 * HOUR)
    assert [[each.id for each in part] for part in (found.batches, found.left_out)] == [[world.ids[2]], [open_one.id]]


def test_a_range_without_published_batches_is_refused() -> None:
    world = Hourly()
    with pytest.raises(WrongDefinitionError, match=r"no batch that is published was planned from .*tidegate batches"):
        chosen_between(world.pipeline(), world.begun + 5 * HOUR, world.begun + 6 * HOUR)


def test_an_unknown_batch_is_refused_by_name() -> None:
    with pytest.raises(StaleError, match=r"(?s)b9.*`tidegate batches orders` lists those that aren't pruned"):
        chosen_batch(World().pipeline(), "b9")


def test_a_preview_says_what_would_be_replaced_and_does_nothing() -> None:
    world = Hourly(batches=1)
    pipeline = world.pipeline()
    (batch,) = chosen_batch(pipeline, world.ids[0]).batches
    delivered = len(world.processor.delivered)
    expected = {"batch_id": batch.id, "records": 2, "records_from": "landing", "output": batch.output}
    assert preview_document(pipeline, batch, ReprocessRequest("ada")) == {**expected, "replaces_rows": 2}
    world.landing.remove([file.uri for file in batch.files])
    elsewhere = preview_document(pipeline, batch, ReprocessRequest("ada", output="file:///lake/again"))
    assert (elsewhere["records_from"], elsewhere["replaces_rows"]) == ("kafka", None)
    assert len(world.processor.delivered) == delivered


def test_batches_before_one_that_fails_stay_done() -> None:
    world = Hourly()
    generations = MemoryGenerations(world.ledger, world.clock.now)
    pipeline = world.pipeline()
    chosen = chosen_between(pipeline, world.begun, world.begun + 9 * HOUR)
    done = reprocess_all(pipeline, generations, chosen, ReprocessRequest("ada"))
    next(done)
    world.processor.failures = ["no rate"]
    with pytest.raises(Exception, match="no rate"):
        next(done)
    assert [bool(world.lake.replacement(each.output, each.next_receipt)) for each in chosen.batches] == [
        True,
        False,
        False,
    ]
