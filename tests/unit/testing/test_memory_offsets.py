"""What only the double of the group's offsets can be made to do; the rest is in its contract."""

import pytest

from tidegate.model.errors import CommitUnknownError
from tidegate.model.offsets import TopicPartition
from tidegate.testing.offsets import MemoryOffsets

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_position_does_not_expire_under_a_transaction_that_has_not_ended() -> None:
    """As in Kafka's OffsetMetadataManager.cleanupExpiredOffsets."""
    offsets = MemoryOffsets("lake")
    offsets.reset({P0: 1, P1: 1})
    offsets.delay_end()
    with offsets.fence() as fence, pytest.raises(CommitUnknownError):
        fence.commit({P0: 2}, "receipt")
    offsets.expire()
    assert {at: position.offset for at, position in offsets.positions.items()} == {P0: 1}
    offsets.end_late()
    assert {at: position.offset for at, position in offsets.positions.items()} == {P0: 2}


def test_without_a_transaction_all_positions_expire() -> None:
    offsets = MemoryOffsets("lake")
    offsets.reset({P0: 1, P1: 1})
    offsets.expire()
    assert offsets.positions == {}
