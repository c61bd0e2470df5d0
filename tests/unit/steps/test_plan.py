import logging

import pytest
from world import World, deliver, planned

from tidegate.batch import State
from tidegate.errors import LostDataError, StaleError, UnavailableError
from tidegate.positions import Range, TopicPartition
from tidegate.receipt import Receipt
from tidegate.subscription import TopicNames

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_first_contact_commits_its_start_before_anything_is_read() -> None:
    world = World()
    world.produce(3)
    world.pipeline(consumer={"auto_offset_reset": "latest"}).plan()
    receipt = Receipt.parse(world.offsets.positions[P0].metadata)
    assert world.committed() == 3
    assert receipt is not None
    assert receipt.batch_id is None


def test_latest_does_not_lose_what_arrives_between_two_empty_polls() -> None:
    world = World()
    world.produce(2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    assert deliver(pipeline) is None
    world.produce(4)
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.ranges, batch.landed_records) == ((Range("orders", 0, 2, 6),), 4)


def test_an_empty_poll_takes_the_poll_timeout_and_no_longer() -> None:
    world = World()
    plan = world.pipeline(poll_timeout_ms=2000).plan()
    assert plan.batch is None
    assert 2.0 <= world.clock.monotonic() <= 2.5


def test_a_broker_that_is_away_is_an_empty_poll() -> None:
    world = World()
    world.topics.reachable = False
    assert world.pipeline(poll_timeout_ms=2000).plan().batch is None
    assert 2.0 <= world.clock.monotonic() <= 2.5


def test_a_ledger_that_is_away_is_no_empty_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def away(_: str) -> None:
        raise UnavailableError("the ledger can't be used")

    monkeypatch.setattr(world.ledger, "look", away)
    with pytest.raises(UnavailableError, match="ledger"):
        world.pipeline().plan()


def test_a_missing_topic_is_an_empty_poll_and_is_read_from_its_earliest_record_once_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(topic=None)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    with caplog.at_level(logging.WARNING):
        assert pipeline.plan().batch is None
    assert "no such topic yet: orders" in caplog.text
    world.topics.create("orders")
    world.produce(3)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 3


def test_the_cap_is_split_by_lag() -> None:
    world = World(partitions=3)
    for partition, records in enumerate((101, 11, 1)):
        world.produce(records, partition)
    plan = world.pipeline(consumer={"max_poll_records": 10}).plan()
    assert plan.batch is not None
    assert [r.end - r.start for r in plan.batch.ranges] == [8, 1, 1]


def test_a_plan_is_repeated_until_its_batch_is_settled() -> None:
    world = World()
    world.produce(5)
    first = world.pipeline().plan()
    world.produce(5)
    assert world.pipeline().plan().batch == first.batch


def test_two_planners_of_one_moment_open_one_batch() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    pipeline.plan()
    late = world.ledger.look("orders")
    deliver(pipeline)
    world.produce(5)
    with pytest.raises(StaleError):
        world.ledger.open(late.open, late.version) if late.open else None
    assert deliver(pipeline) is not None


def test_a_batch_that_was_committed_unknown_to_the_ledger_is_noted() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.reset({P0: 5}, str(batch.next_receipt))
    assert pipeline.plan().batch is None
    assert world.ledger.batch(batch.id).state is State.COMMITTED


def test_a_group_that_somebody_moved_abandons_the_batch_and_honours_the_move() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.reset({P0: 2})
    following = deliver(pipeline)
    assert following is not None
    abandoned = world.ledger.batch(batch.id)
    assert abandoned.state is State.ABANDONED
    assert "moved by somebody else" in (abandoned.reason or "")
    assert following.ranges == (Range("orders", 0, 2, 5),)
    assert following.receipt.incarnation != batch.receipt.incarnation
    assert len(world.lake.abandoned) == 1


def test_a_replay_by_kafkas_own_tool_is_read_again_as_a_new_batch() -> None:
    world = World()
    world.produce(5)
    first = deliver(world.pipeline())
    world.offsets.reset({P0: 0})
    again = deliver(world.pipeline())
    assert first is not None
    assert again is not None
    assert first.ranges == again.ranges
    assert first.id != again.id


def test_offsets_that_vanished_go_on_from_the_ledger() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.offsets.expire()
    world.produce(2)
    batch = deliver(world.pipeline())
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 5, 7),)


def test_a_ledger_lost_after_the_publish_takes_the_published_ranges() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.refuse(P0, "broken")
    with pytest.raises(Exception, match="broken"):
        pipeline.commit(batch.id)
    world.offsets._refusals.clear()
    lost = World()
    lost.__dict__.update({**world.__dict__, "ledger": lost.ledger})
    world.produce(5)
    assert deliver(lost.pipeline()) is not None
    assert deliver(lost.pipeline()) is not None
    assert lost.published() == [(0, 5), (5, 10)]


def test_a_new_partition_starts_at_its_earliest_record() -> None:
    world = World()
    world.produce(2)
    pipeline = world.pipeline(consumer={"auto_offset_reset": "latest"})
    deliver(pipeline)
    world.topics.add_partitions("orders", 1)
    world.produce(3, partition=1)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 3
    assert world.committed(1) == 3


def test_one_new_record_on_one_of_many_partitions_is_taken_and_the_others_stay() -> None:
    world = World(partitions=20)
    pipeline = world.pipeline()
    pipeline.plan()
    world.produce(1, partition=7)
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 1
    assert [world.committed(n) for n in range(20)] == [1 if n == 7 else 0 for n in range(20)]


def test_every_partition_carries_the_receipt_of_the_commit() -> None:
    world = World(partitions=3)
    world.produce(1, partition=1)
    batch = deliver(world.pipeline())
    assert batch is not None
    assert {p.metadata for p in world.offsets.positions.values()} == {str(batch.next_receipt)}


def test_an_expired_position_fails_naming_what_the_partition_holds() -> None:
    world = World()
    world.pipeline().plan()
    world.produce(9)
    world.topics.expire("orders", before=4)
    with pytest.raises(LostDataError, match=r"partition 0, offset 0: .* \[4, 9\)"):
        world.pipeline().plan()
    assert world.committed() == 0


def test_with_on_data_loss_reset_only_that_partition_moves() -> None:
    world = World(partitions=2)
    world.pipeline().plan()
    world.produce(9)
    world.produce(2, partition=1)
    world.topics.expire("orders", before=4)
    batch = deliver(world.pipeline(on_data_loss="reset"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 4, 9), Range("orders", 1, 0, 2))


def test_members_share_the_partitions_as_kafkas_range_assignor_does() -> None:
    world = World(partitions=3, topic="t0")
    world.topics.create("t1", 3)
    for topic in ("t0", "t1"):
        for partition in range(3):
            world.produce(1, partition, topic)
    plan = world.pipeline(topics=TopicNames(("t0", "t1")), members=2).plan()
    assert plan.batch is not None
    shares = [[f"{tp.topic}p{tp.partition}" for tp in share] for share in plan.batch.shares]
    assert shares == [["t0p0", "t0p1", "t1p0", "t1p1"], ["t0p2", "t1p2"]]


def test_more_members_than_partitions_are_fine() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(members=4)
    assert pipeline.plan().members == (0,)
    assert deliver(pipeline) is not None
