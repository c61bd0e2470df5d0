"""What a definition has otherwise than the last batch: a preview lists it, and the run that plans with it says so."""

import logging
from dataclasses import replace

import pytest
from world import World, deliver


def test_what_takes_effect_with_the_next_batch_is_listed() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    assert world.pipeline().preview().changes == ()
    changed = replace(world.pipeline(commit_strategy="manual", members=2), output="file:///lake/elsewhere")
    assert changed.preview().changes == (
        "commit-strategy: after-processing becomes manual",
        "processing.output: file:///lake/orders becomes file:///lake/elsewhere; what is published stays where it is",
        "members: 1 becomes 2",
    )


def test_another_format_is_said_with_the_tables_place() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    changed = replace(world.pipeline(), output="delta+file:///lake/orders")
    assert changed.preview().changes == ("processing.format: parquet becomes delta",)
    moved = replace(world.pipeline(), output="iceberg://lake/shop/orders")
    assert moved.preview().changes == (
        "processing.format: parquet becomes iceberg",
        (
            "processing.output: file:///lake/orders becomes iceberg://lake/shop/orders; what is published stays where "
            "it is"
        ),
    )


def test_a_run_says_what_its_batch_has_otherwise_than_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    """As where two installations with different outputs have one ledger, so that each run goes elsewhere."""
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.produce(5)
    elsewhere = replace(world.pipeline(), output="file:///lake/elsewhere")
    with caplog.at_level(logging.WARNING):
        plan = elsewhere.plan()
    said = "processing.output: file:///lake/orders becomes file:///lake/elsewhere; what is published stays where it is"
    assert plan.why == f"5 offsets planned; {said}"
    assert said in caplog.text


def test_a_run_whose_definition_is_as_it_was_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            world.produce(5)
            assert world.pipeline().plan().why == "5 offsets planned"
            deliver(world.pipeline())
    assert not caplog.text
