import json
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.positions import TopicPartition
from tidegate.status import status_of
from tidegate.subscription import Cursor
from tidegate.testing.effects import Effect, watched


def test_it_says_where_each_partition_stands_and_what_became_of_the_last_batches() -> None:
    world = World(partitions=2)
    world.produce(5)
    deliver(world.pipeline())
    world.produce(3, partition=1)
    status = status_of(world.pipeline(), 10)
    assert [(p.at, p.committed, p.end, p.lag) for p in status.positions] == [
        (TopicPartition("orders", 0), 5, 5, 0),
        (TopicPartition("orders", 1), 0, 3, 3),
    ]
    assert (status.lag, status.open, [o.batch.state for o in status.history]) == (3, None, ["committed"])
    assert json.loads(json.dumps(status.to_json()))["batches"][0]["records"] == 5


def test_it_names_the_open_batch() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    assert status_of(world.pipeline(), 10).to_json()["open"]["batch_id"] == batch.id


def test_it_names_lost_positions() -> None:
    world = World()
    world.pipeline().plan()
    world.produce(9)
    world.topics.expire("orders", before=4)
    deliver(world.pipeline(on_data_loss="reset"))
    lost = {"topic": "orders", "partition": 0, "position": 0, "earliest": 4, "end": 9}
    assert status_of(world.pipeline(), 10).to_json()["losses"] == [lost]


def test_without_kafka_it_says_what_the_ledger_knows() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.topics.reachable = False
    status = status_of(world.pipeline(), 10)
    assert status.lag is None
    assert "unreachable" in (status.unavailable or "")
    assert len(status.history) == 1


@pytest.mark.parametrize(
    ("chosen", "lag"),
    [
        ({"consumer": {"auto_offset_reset": "earliest"}}, 5),
        ({"consumer": {"auto_offset_reset": "latest"}}, 0),
        ({"consumer": {"auto_offset_reset": "none"}}, 5),
        ({"cursor": Cursor("AT_OFFSET", offset=2)}, 3),
        ({"cursor": Cursor("LATEST")}, 0),
    ],
)
def test_before_the_first_commit_the_lag_counts_from_where_the_first_run_begins(
    chosen: dict[str, Any], lag: int
) -> None:
    world = World()
    world.produce(5)
    status = status_of(world.pipeline(**chosen), 10)
    assert ([p.committed for p in status.positions], status.lag) == ([None], lag)


def test_where_each_run_starts_from_the_cursor_the_lag_counts_from_there() -> None:
    world = World()
    world.produce(5)
    chosen = {"commit_strategy": "ignore", "cursor": Cursor("AT_OFFSET", offset=2)}
    world.offsets_of_ignore()
    assert deliver(world.pipeline(**chosen)) is not None
    world.offsets_of_ignore()
    assert status_of(world.pipeline(**chosen), 10).lag == 3


def test_what_arrives_meanwhile_makes_no_lag_negative() -> None:
    world = World()

    class Arriving:
        def before(self, effect: Effect) -> None:
            if str(effect) == "source.watermarks":
                world.produce(1)

        def after(self, effect: Effect) -> None:
            """Nothing."""

    pipeline = watched(world.pipeline(cursor=Cursor("LATEST")), Arriving())
    assert status_of(pipeline, 10).lag == 1
