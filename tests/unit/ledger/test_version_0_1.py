"""A ledger of version 0.1 with an open batch in every state: each goes on with the version that is here."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from world import World

from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome, State
from tidegate.model.manifest import Counts, Manifest, Published
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.subscription import DelayedRetryTopic, TopicNames
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.lake import PublishedAttempt, StagedAttempt

FOLDER = Path(__file__).with_name("version_0_1")
AGAIN = "again_1000"
GIVEN_UP: dict[str, dict[str, Any]] = {
    "ignoring": {"failure_strategy": "ignore"},
    "dead-lettering": {"failure_strategy": "dead-letter-queue"},
    "retrying": {
        "failure_strategy": "delayed-retry-topic",
        "delayed_retry_topic": DelayedRetryTopic(topics=(AGAIN,)),
    },
}
ENDS = {"ignoring": Outcome.IGNORED, "dead-lettering": Outcome.DEAD_LETTERED, "retrying": Outcome.RETRIED}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "planned": {},
    "landed": {},
    "processing": {},
    "processed": {},
    "published": {},
    "failed": {},
    "stopped": {"max_retries": 0},
    "asking": {"failure_strategy": "ask", "max_retries": 0},
    "received": {"commit_strategy": "on-receipt"},
    **GIVEN_UP,
}


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    file = tmp_path / "ledger.db"
    with sqlite3.connect(file) as connection:
        connection.executescript((FOLDER / "ledger.sql").read_text())
    return SqlLedger(f"sqlite:///{file}")


def world_of(name: str, ledger: SqlLedger) -> World:
    """What was there beside the ledger: records, positions, landed files, and what was published."""
    world = World(topic=name)
    world.ledger = ledger  # type: ignore[assignment] # a double elsewhere
    world.produce(8, topic=name)
    for topic in (f"dead-letter-topic-{name}", AGAIN):
        world.topics.create(topic, 1)
    snapshot = ledger.look(name)
    world.topics.ids |= snapshot.topic_ids
    batch = snapshot.open
    assert batch is not None
    stands = batch.next_receipt if batch.offsets_committed else batch.receipt
    ends = {r.at: r.end if batch.offsets_committed else r.start for r in batch.ranges}
    world.offsets.reset(ends, str(stands))
    with pipeline_of(world, name).source.read((Range(name, 0, 5, 8),), world.clock.monotonic() + 1) as reader:
        records = tuple(read for chunk in reader for read in chunk)
    world.lake.written.add(batch.output)  # by the batches before
    world.landing.files = {file.uri: records for file in batch.files}
    if batch.state is State.PUBLISHED:
        assert batch.delivery is not None
        manifest = Manifest(batch, batch.delivery, None, "strict", "of no use any more")
        staged = StagedAttempt(None, Counts(3, 0))
        world.lake.published_attempts[batch.output, batch.id] = PublishedAttempt(manifest, staged)
    return world


def pipeline_of(world: World, name: str) -> Pipeline:
    definition = DEFINITIONS[name]
    return world.pipeline(name=name, topics=TopicNames((name,)), consumer={"group_id": f"{name}-lake"}, **definition)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_open_batch_of_version_0_1_goes_on(name: str, ledger: SqlLedger) -> None:
    world = world_of(name, ledger)
    batch = ledger.look(name).open
    assert batch is not None
    assert batch.condition == {"received": "landed"}.get(name, name)
    pipeline = pipeline_of(world, name)
    if batch.state is State.HELD:
        pipeline.clear("ada", "")
    for _ in range(4):
        if ledger.look(name).open is not None:
            run_batch(pipeline, lambda _: None)
    ended = ledger.batch(batch.id)
    assert ended.outcome is ENDS.get(name, Outcome.COMMITTED), ended.reason
    assert world.committed(topic=name) == 8
    assert world.published() == ([] if name in GIVEN_UP else [(5, 8)])
    assert len(world.kafka.produced) == (3 if name in ("dead-lettering", "retrying") else 0)


def test_every_open_state_of_version_0_1_is_there(ledger: SqlLedger) -> None:
    found = {batch.subscription: batch.condition for batch in ledger.open_batches()}
    assert found.keys() == DEFINITIONS.keys()
    assert len(set(found.values())) == len(found) - 1


def test_what_version_0_1_published_is_read() -> None:
    published = Published.from_json((FOLDER / "published_manifest.json").read_text())
    at = TopicPartition("published", 0)
    assert (published.ranges, published.records) == ((Range("published", 0, 5, 8),), {at: 3})
    assert (published.rows, published.rejected, len(published.files)) == (3, 0, 1)
