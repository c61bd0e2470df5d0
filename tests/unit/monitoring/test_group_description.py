"""A group as it is now, as Kafka sees it and as OCI Streaming does."""

from datetime import timedelta
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.offsets import TopicPartition
from tidegate.monitoring.group_description import describe_group
from tidegate.runtime.pipeline import Pipeline


def described(pipeline: Pipeline) -> list[dict[str, Any]]:
    partitions: list[dict[str, Any]] = describe_group(pipeline).to_json()["partitions"]
    return partitions


def test_it_says_where_each_partition_stands_and_who_committed_that() -> None:
    world = World(3)
    pipeline = world.pipeline()
    world.produce(5)
    world.produce(2, partition=1)
    deliver(pipeline)
    world.produce(3)
    world.kafka.reset({TopicPartition("orders", 1): 1}, "by another tool")
    world.topics.expire("orders", 2)
    told = describe_group(pipeline)
    assert (told.group, told.cluster_id, told.members, told.open) == ("orders-lake", "memory", (), None)
    assert [
        (each["committed"], each["log_start"], each["log_end"], each["lag"], each["committed_by"])
        for each in described(pipeline)
    ] == [(5, 2, 8, 3, "tidegate"), (1, 0, 2, 1, "somebody else"), (0, 0, 0, 0, "tidegate")]
    assert told.to_json()["lag"] == 4


@pytest.mark.parametrize(("reset", "lag"), [("earliest", 3), ("latest", 0), ("none", None)])
def test_a_group_that_never_was_lags_behind_where_its_first_run_would_begin(reset: str, lag: int | None) -> None:
    world = World()
    world.produce(5)
    world.topics.expire("orders", 2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": reset})
    (one,) = described(pipeline)
    assert (one["committed"], one["lag"], one["committed_by"], one["oci"]["committedOffset"]) == (None, lag, None, None)
    assert describe_group(pipeline).to_json()["lag"] == lag


def test_a_partition_that_is_new_counts_from_where_the_next_run_begins() -> None:
    world = World(1)
    pipeline = world.pipeline()
    world.produce(5)
    deliver(pipeline)
    world.topics.add_partitions("orders", 1)
    world.produce(3, partition=1)
    assert [each["lag"] for each in described(pipeline)] == [0, 3]
    assert describe_group(pipeline).to_json()["lag"] == 3


def test_positions_that_have_vanished_count_from_where_the_ledger_goes_on() -> None:
    world = World()
    pipeline = world.pipeline()
    world.produce(5)
    deliver(pipeline)
    world.produce(2)
    world.kafka.expire()
    assert describe_group(pipeline).to_json()["lag"] == 2


def test_it_names_live_members() -> None:
    world = World()
    world.kafka.join("dashboard-1")
    assert describe_group(world.pipeline()).members == ("dashboard-1",)


def test_as_oci_streaming_a_committed_offset_is_the_last_one_that_was_read() -> None:
    world = World(2)
    pipeline = world.pipeline()
    world.produce(5)
    deliver(pipeline)
    assert [each["oci"]["committedOffset"] for each in described(pipeline)] == [4, None]


def test_as_oci_streaming_a_member_of_the_open_batch_has_its_partitions_until_the_deadline() -> None:
    world = World(2)
    pipeline = world.pipeline(members=2, consumer={"max_poll_interval_ms": 60_000})
    world.produce(5)
    world.produce(5, partition=1)
    batch = planned(pipeline)
    assert batch is not None
    assert [each["oci"]["reservedInstance"] for each in described(pipeline)] == ["member-0", "member-1"]
    assert [each["oci"]["timeReservedUntil"] for each in described(pipeline)] == [None, None]
    began = world.clock.now()
    pipeline.ledger.start_delivery(batch.id)
    until = {each["oci"]["timeReservedUntil"] for each in described(pipeline)}
    assert until == {(began + timedelta(minutes=1)).isoformat()}
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert [each["oci"]["reservedInstance"] for each in described(pipeline)] == [None, None]


def test_a_delivery_that_may_take_any_time_has_no_deadline() -> None:
    world = World()
    pipeline = world.pipeline(commit_strategy="on-receipt")
    world.produce(5)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.receive(batch.id)
    pipeline.ledger.start_delivery(batch.id)
    assert [each["oci"]["timeReservedUntil"] for each in described(pipeline)] == [None]
