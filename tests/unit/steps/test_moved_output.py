"""Where the rows of a published batch are, once its output was moved or the definition names another one."""

from dataclasses import replace
from typing import Any

import pytest
from world import OUTPUT, World, deliver

from tidegate.model.batch import Batch
from tidegate.model.errors import UnavailableError
from tidegate.model.receipt import Receipt
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.moved_output import where_rows_are

OTHER = "file:///lake/moved"


def delivered(world: World) -> tuple[Pipeline, list[Batch]]:
    """Two batches, and the pipeline of a definition that names another output by now."""
    pipeline, batches = world.pipeline(), []
    for _ in range(2):
        world.produce(2)
        batch = deliver(pipeline)
        assert batch is not None
        batches.append(batch)
    return replace(pipeline, output=OTHER), batches


def move(world: World) -> None:
    attempts = world.lake.published_attempts
    for output, batch_id in list(attempts):
        attempts[OTHER, batch_id] = attempts.pop((output, batch_id))


def outputs(pipeline: Pipeline, batches: list[Batch]) -> list[str]:
    return [each.output for each in map(where_rows_are(pipeline), batches)]


def test_they_are_where_the_batch_was_planned_for_as_long_as_that_has_it() -> None:
    assert outputs(*delivered(World())) == [OUTPUT, OUTPUT]


def test_they_go_along_with_an_output_that_was_moved() -> None:
    world = World()
    pipeline, batches = delivered(world)
    move(world)
    assert outputs(pipeline, batches) == [OTHER, OTHER]


def test_what_the_moved_one_has_lost_since_went_along_too() -> None:
    world = World()
    pipeline, batches = delivered(world)
    move(world)
    del world.lake.published_attempts[OTHER, batches[-1].id]
    assert outputs(pipeline, batches) == [OTHER, OTHER]


def test_an_output_that_was_removed_was_not_moved_into_a_new_one() -> None:
    world = World()
    pipeline, batches = delivered(world)
    world.lake.published_attempts.clear()
    world.produce(2)
    new = deliver(pipeline)
    assert new is not None
    assert outputs(pipeline, [*batches, new]) == [OUTPUT, OUTPUT, OTHER]


def test_an_earlier_one_that_cannot_be_asked_any_more_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    pipeline, batches = delivered(world)
    move(world)
    published = world.lake.published

    def away(output: str, of: Receipt) -> Any:
        if output == OUTPUT:
            raise UnavailableError("its connection is gone")
        return published(output, of)

    monkeypatch.setattr(world.lake, "published", away)
    assert outputs(pipeline, batches) == [OTHER, OTHER]
