from datetime import timedelta
from typing import Any

from world import World, deliver

from tidegate.cli import status_text
from tidegate.cli.console import out
from tidegate.model.offsets import TopicPartition
from tidegate.monitoring.lag import PartitionStatus, lag_behind, worst_seconds
from tidegate.monitoring.status import status_of
from tidegate.testing.topics import Record


def produce_at(world: World, *seconds: float, partition: int = 0, topic: str = "orders") -> None:
    """Records made so many seconds before now, by the world's clock."""
    stamps = [(world.clock.now() - timedelta(seconds=each)).timestamp() * 1000 for each in seconds]
    world.topics.produce(topic, *(Record(b"v", timestamp=int(each)) for each in stamps), partition=partition)


def lag_seconds(world: World, **definition: Any) -> tuple[float | None, list[float | None]]:
    document = status_of(world.pipeline(**definition), 10).to_json()
    return document["lag_seconds"], [each["lag_seconds"] for each in document["positions"]]


def test_it_is_the_age_of_the_oldest_record_that_waits_in_each_partition_and_the_worst_of_them() -> None:
    world = World(partitions=3)
    produce_at(world, 90, 30)
    produce_at(world, 240, partition=1)
    assert lag_seconds(world) == (240, [90, 240, 0])


def test_what_was_read_doesnt_wait() -> None:
    world = World()
    produce_at(world, 90)
    deliver(world.pipeline())
    assert lag_seconds(world) == (0, [0])
    produce_at(world, 20)
    assert lag_seconds(world) == (20, [20])


def test_behind_a_batch_is_what_came_after_its_ends_and_unknown_where_kafka_does_not_say() -> None:
    world = World(partitions=2)
    world.produce(3)
    batch = deliver(world.pipeline())
    assert batch is not None
    assert lag_behind(batch, world.pipeline().source) == 0
    world.produce(5)
    world.produce(2, partition=1)
    assert lag_behind(batch, world.pipeline().source) == 7
    world.topics.delete("orders")
    assert lag_behind(batch, world.pipeline().source) in (0, None)


def test_a_producer_whose_clock_is_ahead_makes_none_negative() -> None:
    world = World()
    produce_at(world, -3600)
    assert lag_seconds(world) == (0, [0])


def test_positions_before_a_gap_count_from_the_record_after_it() -> None:
    world = World()
    produce_at(world, 90, 60, 30)
    world.topics.remove("orders", 0, 1)
    assert lag_seconds(world) == (30, [30])


def test_aborted_records_dont_wait() -> None:
    world = World()
    transaction = world.topics.begin()
    transaction.produce("orders", Record(b"v", timestamp=1))
    transaction.abort()
    assert status_of(world.pipeline(), 10).lag == 2
    assert lag_seconds(world) == (0, [0])


def test_what_isnt_known_is_no_number() -> None:
    world = World(partitions=2)
    world.topics.produce("orders", Record(b"v", timestamp=-1))
    assert lag_seconds(world) == (None, [None, 0])
    produce_at(world, 30, partition=1)
    assert lag_seconds(world) == (30, [None, 30])
    world.topics.reachable = False
    assert lag_seconds(world) == (None, [])


def test_a_partition_of_which_nothing_comes_is_given_up() -> None:
    world = World()
    produce_at(world, 90)
    world.topics.stick("orders", 0)
    before = world.clock.now()
    assert lag_seconds(world) == (None, [None])
    assert world.clock.now() - before <= timedelta(seconds=5)


def test_records_that_wait_until_they_are_due_make_no_lag_in_time() -> None:
    world = World()
    retrying = {"failure_strategy": "delayed-retry-topic"}
    first, *_ = world.pipeline(**retrying).subscription.retry_topics
    world.topics.create(first)
    produce_at(world, 90, topic=first)
    assert status_of(world.pipeline(**retrying), 10).lag == 1
    assert lag_seconds(world, **retrying) == (0, [0, 90])


def test_the_worst_is_of_those_that_lag() -> None:
    at = TopicPartition("orders", 0)
    unknown, known, idle = (
        PartitionStatus(at, 0, 0, 5, None),
        PartitionStatus(at, 0, 0, 5, 7.0),
        PartitionStatus(at, 0, 5, 5, 0.0),
    )
    assert worst_seconds([unknown, known, idle]) == 7
    assert worst_seconds([unknown, idle]) is None
    assert worst_seconds([idle]) == worst_seconds([]) == 0


def test_the_text_says_how_long_the_oldest_has_waited() -> None:
    world = World()
    produce_at(world, 3725)
    with out.capture() as captured:
        status_text.print_all([status_of(world.pipeline(), 10).to_json()])
    assert "lag 1 (the oldest record has waited 1:02:05)" in captured.get()
    assert "3725" in captured.get().partition("lag_seconds")[2]
