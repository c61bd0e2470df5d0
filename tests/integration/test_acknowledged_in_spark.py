"""Jobs that acknowledge records or keep a state, on a real broker and a real Spark."""

import re
from collections.abc import Callable

import pytest
from broker_world import committed, in_lake, move
from confluent_kafka.admin import AdminClient

from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import Run, run_batch
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Open = Callable[..., Pipeline]
RECORDS = 10


@pytest.fixture
def filled(topic: Callable[..., str], produce: Callable[..., None]) -> str:
    name = topic()
    produce(name, RECORDS)
    return name


def run(pipeline: Pipeline) -> Run:
    return run_batch(pipeline, lambda _: None)


def stand(broker: Broker, topic: str) -> int:
    return committed(broker, f"{topic}-lake", (topic, 0))[0]


@pytest.mark.parametrize(("strategy", "stands"), [("throttled", 5), ("latest", RECORDS)])
def test_what_is_acknowledged_decides_how_far_the_batch_goes(
    strategy: str, stands: int, broker: Broker, filled: str, open_in_spark: Open
):
    pipeline = open_in_spark(filled, "acknowledging:up_to_a_gap", commit_strategy=strategy)
    ended = run(pipeline)
    assert ended.error is None
    assert ended.batch is not None
    assert (ended.batch.condition, [(r.start, r.end) for r in ended.batch.ranges]) == (Outcome.COMMITTED, [(0, stands)])
    assert stand(broker, filled) == stands
    assert in_lake(pipeline) == [(0, offset) for offset in range(stands)]


@pytest.mark.parametrize(
    ("transform", "interval"), [("then_fails", {"auto_commit_interval_ms": 100}), ("fails_at_once", {})]
)
def test_a_job_that_dies_has_committed_what_it_acknowledged_and_is_handed_the_rest(
    transform: str, interval: dict[str, int], broker: Broker, filled: str, open_in_spark: Open
):
    chosen = {"commit_strategy": "throttled", "max_retries": 1, **interval}
    pipeline = open_in_spark(filled, f"acknowledging:{transform}", **chosen)
    failed = run(pipeline)
    assert "no memory" in str(failed.error)
    assert stand(broker, filled) == 5
    again = run(pipeline)
    assert failed.batch is not None
    assert again.batch is not None
    assert (again.error, again.batch.id, again.batch.rows) == (None, failed.batch.id, 5)
    assert (stand(broker, filled), in_lake(pipeline)) == (RECORDS, [(0, offset) for offset in range(5, RECORDS)])


def test_a_record_that_waits_too_long_fails_the_run_and_is_named(broker: Broker, filled: str, open_in_spark: Open):
    chosen = {"commit_strategy": "throttled", "auto_commit_interval_ms": 100, "unprocessed_record_max_age_ms": 1000}
    error = run(open_in_spark(filled, "acknowledging:nothing", max_retries=1, **chosen)).error
    assert isinstance(error, BatchFailedError)
    waits = rf"unacknowledged for .*topic {filled}, partition 0, offset [01]\); (9|10) records of the partition wait"
    assert re.search(waits, str(error))
    assert stand(broker, filled) <= 1


def test_a_restart_resumes_with_its_state_from_the_store_and_kafka_is_neither_asked_nor_moved(
    broker: Broker, admin: AdminClient, filled: str, produce: Callable[..., None], open_in_spark: Open
):
    chosen = {"commit_strategy": "checkpoint"}
    assert run(open_in_spark(filled, "acknowledging:counting", **chosen)).error is None
    assert stand(broker, filled) == -1001
    move(admin, filled, {0: 2})
    produce(filled, 3)
    again = open_in_spark(filled, "acknowledging:counting", **chosen)
    resumed = run(again)
    assert resumed.batch is not None
    assert (resumed.error, [(r.start, r.end) for r in resumed.batch.ranges]) == (None, [(RECORDS, RECORDS + 3)])
    assert again.offsets.state() == '{"records": 13}'
    assert (stand(broker, filled), in_lake(again)) == (2, [(0, offset) for offset in range(RECORDS + 3)])
