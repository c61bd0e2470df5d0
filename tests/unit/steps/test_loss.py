from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.ports import Committed, Loss
from tidegate.steps.loss import lost_positions, recreated

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_position_is_lost_when_the_partition_begins_behind_it_or_ends_before_it() -> None:
    marks = {P0: Watermarks(5, 9), P1: Watermarks(5, 9)}
    for inside in (5, 7, 9):
        assert lost_positions({P0: Committed(inside)}, marks, {}) == []
    found = lost_positions({P1: Committed(10), P0: Committed(4)}, marks, {})
    assert [one.loss for one in found] == [Loss("orders", 0, 4, 5, 9), Loss("orders", 1, 10, 5, 9)]
    assert str(found[0]) == (
        "the committed position is outside of what the partition holds, [5, 9) (topic orders, partition 0, offset 4)"
    )


def test_every_position_of_a_topic_that_was_created_again_is_lost() -> None:
    gone = recreated({"orders": "new", "returns": "same"}, {"orders": "old", "returns": "same"})
    assert gone == {"orders": "was deleted and created again (its id was old and is new)"}
    found = lost_positions({P0: Committed(7)}, {P0: Watermarks(5, 9)}, gone)
    assert [one.loss.position for one in found] == [7]
    assert "created again" in str(found[0])


def test_a_topic_that_was_never_seen_and_a_cluster_without_ids_lose_nothing() -> None:
    assert recreated({"orders": "new"}, {}) == {}
    assert recreated({}, {"orders": "old"}) == {}
