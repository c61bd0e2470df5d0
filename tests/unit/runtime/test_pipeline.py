"""What a pipeline joins a subscription to."""

from pathlib import Path

import pytest
from definitions import subscription

from tidegate.config.settings import Settings
from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.kafka.offsets import KafkaOffsets
from tidegate.ledger.offsets import SqlOffsets
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitStrategy, PositionStore
from tidegate.ports import Connection
from tidegate.runtime.pipeline import open_pipeline
from tidegate.testing.connections import MemoryConnections

STORES = {
    PositionStore.KAFKA: KafkaOffsets,
    PositionStore.LEDGER: SqlOffsets,
    PositionStore.NONE: NullOffsetStore,
}


@pytest.mark.parametrize("strategy", COMMIT_POLICIES)
def test_the_commit_strategy_says_where_positions_are_kept_and_nothing_is_connected(
    strategy: CommitStrategy, tmp_path: Path
) -> None:
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})
    nobody = Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": "127.0.0.1:1"})
    with open_pipeline(subscription(commit_strategy=strategy), settings, MemoryConnections(nobody)) as pipeline:
        assert isinstance(pipeline.offsets, STORES[COMMIT_POLICIES[strategy].store])
        assert pipeline.offsets.state() is None
