"""Which batches are made once more: one by its id, or those that were planned in a range of time."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from ledger_batches import closed, plan
from world import World, deliver, planned

from tidegate.dead_letters.lock import RedriveLock
from tidegate.dead_letters.redriver import RedriveRequest
from tidegate.dead_letters.targets import Targets
from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.operations.dead_letters import OpenDeadLetters
from tidegate.operations.other_output import other_output
from tidegate.operations.reprocessing import (
    Chosen,
    chosen_batch,
    chosen_between,
    interrupted,
    refuse_redriven,
    removed_batches,
    reprocess_all,
    reprocess_document,
)
from tidegate.steps.reprocess import ReprocessRequest
from tidegate.testing.clock import MemoryClock
from tidegate.testing.generations import MemoryGenerations
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.redriving import MemoryDeadLetters, MemoryRedrives

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
    found = chosen_between(world.pipeline(), world.begun + start * HOUR, world.begun + end * HOUR, ended=0)
    assert [batch.id for batch in found.batches] == [world.ids[each] for each in chosen]
    assert found.left_out == ()


def test_long_histories_are_looked_through() -> None:
    world = Hourly(batches=120)
    found = chosen_between(world.pipeline(), world.begun, world.begun + 3 * HOUR, ended=0)
    assert [batch.id for batch in found.batches] == world.ids[:3]


def test_what_is_open_or_not_published_is_left_out_and_named() -> None:
    world = Hourly()
    world.produce(1)
    open_one = planned(world.pipeline())
    assert open_one is not None
    found = chosen_between(world.pipeline(), world.begun + 2 * HOUR, world.begun + 9 * HOUR, ended=0)
    assert [[each.id for each in part] for part in (found.batches, found.left_out)] == [[world.ids[2]], [open_one.id]]


@pytest.mark.parametrize(("start", "removed"), [(-1, 2), (0, 2), (1, 0)])
def test_batches_of_the_time_that_the_ledger_has_no_more_are_told(start: int, removed: int) -> None:
    world = Hourly()
    found = chosen_between(world.pipeline(), world.begun + start * HOUR, world.begun + 9 * HOUR, ended=5)
    assert found.removed == removed
    said = removed_batches(found)
    if removed:
        assert re.search(
            r"^2 earlier batches can't be reprocessed, .*`tidegate prune` .* planned 20\d\d-.* UTC$", said or ""
        )
    else:
        assert said is None


def test_a_range_without_published_batches_is_refused() -> None:
    world = Hourly()
    with pytest.raises(WrongDefinitionError, match=r"no batch that is published was planned from .*tidegate batches"):
        chosen_between(world.pipeline(), world.begun + 5 * HOUR, world.begun + 6 * HOUR, ended=0)
    with pytest.raises(WrongDefinitionError, match="; 2 earlier batches can't be reprocessed"):
        chosen_between(world.pipeline(), world.begun - 2 * HOUR, world.begun - HOUR, ended=5)


def test_an_unknown_batch_is_refused_by_name() -> None:
    said = (
        r"no such batch, or has it no more, as `tidegate prune` .*\(subscription orders, batch b9\); "
        r"`tidegate batches orders` lists those that it has$"
    )
    with pytest.raises(WrongDefinitionError, match=said):
        chosen_batch(World().pipeline(), "b9")


def test_a_batch_of_another_subscription_is_refused_with_the_command_that_is_right() -> None:
    world = Hourly(batches=1)
    flights = world.pipeline(name="flights")
    said = rf"{world.ids[0]} is subscription orders's: nothing was reprocessed \(subscription flights\); "
    with pytest.raises(StaleError, match=rf"{said}`tidegate reprocess orders --batch {world.ids[0]}`, while there is"):
        chosen_batch(flights, world.ids[0])


def test_another_output_that_has_batches_of_another_subscription_is_refused() -> None:
    world = Hourly(batches=1)
    closed(world.ledger, plan(subscription="flights"))
    said = r"/lake/flights is, lies in or holds an output that has batches of flights, .*: nothing was reprocessed "
    with pytest.raises(WrongDefinitionError, match=said):
        other_output(world.pipeline(), "/lake/flights", Path("/home/orders"), "nothing was reprocessed")


def test_a_preview_says_what_would_be_replaced_and_does_nothing() -> None:
    world = Hourly(batches=1)
    pipeline = world.pipeline()
    (batch,) = chosen_batch(pipeline, world.ids[0]).batches
    delivered = len(world.processor.delivered)
    expected = {"batch_id": batch.id, "records": 2, "records_from": "landing", "output": batch.output}
    assert reprocess_document(pipeline, batch, ReprocessRequest("ada")) == {**expected, "replaces_rows": 2}
    world.landing.remove([file.uri for file in batch.files])
    elsewhere = reprocess_document(pipeline, batch, ReprocessRequest("ada", output="file:///lake/again"))
    assert (elsewhere["records_from"], elsewhere["replaces_rows"]) == ("kafka", None)
    assert len(world.processor.delivered) == delivered


def test_a_batch_of_which_a_dead_letter_was_redriven_is_not_made_a_second_time() -> None:
    world = Hourly(batches=2)
    pipeline = world.pipeline()
    chosen = chosen_between(pipeline, world.begun, world.begun + 9 * HOUR, ended=0)
    chosen = Chosen((chosen.batches[0], replace(chosen.batches[1], rejected=1)))
    topic = MemoryDeadLetters("dead", others={"orders": 1})
    for batch in chosen.batches:
        told = {"topic": "orders", "partition": "0", "offset": str(batch.ranges[0].start)}
        topic.put(b"", *((f"dead-letter-{name}", value.encode()) for name, value in told.items()))
    lock, clock = RedriveLock(MemoryOffsets(fencing=True), topic.name), MemoryClock()
    generations = MemoryGenerations(world.ledger, world.clock.now)
    letters = OpenDeadLetters(pipeline.subscription, topic, MemoryRedrives(), lock, clock, generations)
    refuse_redriven(letters, chosen, ReprocessRequest("ada"))
    order = RedriveRequest("orders", Targets(pipeline.subscription.topics))
    letters.redriver(order).run(letters.survey(order), lambda _: None)
    with pytest.raises(StaleError, match=rf"1 dead letter of it went back.*{chosen.batches[1].id}.*another --output"):
        refuse_redriven(letters, chosen, ReprocessRequest("ada"))
    refuse_redriven(letters, chosen, ReprocessRequest("ada", output="file:///lake/again"))


def test_batches_before_one_that_fails_stay_done() -> None:
    world = Hourly()
    generations = MemoryGenerations(world.ledger, world.clock.now)
    pipeline = world.pipeline()
    chosen = chosen_between(pipeline, world.begun, world.begun + 9 * HOUR, ended=0)
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


@pytest.mark.parametrize(
    ("count", "done", "said"),
    [
        (0, 0, r"^interrupted: nothing was replaced \(subscription orders\); run the same command again$"),
        (
            1,
            0,
            r"^interrupted after 0 of 1 batch; batch \w+ was under way, and is done whole or .*; run the same [^:;]*$",
        ),
        (3, 1, r"after 1 of 3 batches; batch \w+ was .*; those after it are as they were \(.*: it goes on, and makes"),
        (3, 3, r"^interrupted after 3 of 3 batches \(subscription orders\)$"),
    ],
)
def test_whoever_interrupts_it_is_told_what_is_done_and_how_to_go_on(count: int, done: int, said: str) -> None:
    world = Hourly()
    batches = chosen_between(world.pipeline(), world.begun, world.begun + 9 * HOUR, ended=0).batches[:count]
    assert re.search(said, interrupted("orders", batches, done))
