"""When each commit strategy moves the group, on a real broker."""

from collections.abc import Callable

import pytest
from broker_world import committed, in_lake

from tidegate.model.batch import Outcome, State
from tidegate.model.subscription import Cursor
from tidegate.ports import Processor
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import Run, run_batch
from tidegate.testing.effects import Effect, watched
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker


def run(pipeline: Pipeline) -> Run:
    return run_batch(pipeline, lambda _: None)


def test_the_next_poll_commits_and_what_a_dead_reader_took_is_delivered_again(
    broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 200)
    chosen = {"commit_strategy": "on-next-poll", "consumer": {"max_poll_records": 100}}
    reader = open_subscription(name, **chosen)
    first = run(reader)
    assert first.batch is not None
    assert (first.batch.state, committed(broker, f"{name}-lake", (name, 0))) == (State.PUBLISHED, [0])
    died = reader.plan()
    assert died.batch is not None
    assert [(r.start, r.end) for r in died.batch.ranges] == [(100, 200)]
    assert committed(broker, f"{name}-lake", (name, 0)) == [100]
    again = run(open_subscription(name, **chosen))
    assert again.batch is not None
    assert (again.batch.id, again.batch.ranges) == (died.batch.id, died.batch.ranges)
    assert committed(broker, f"{name}-lake", (name, 0)) == [100]
    assert run(reader).why == "there is nothing to read"
    assert committed(broker, f"{name}-lake", (name, 0)) == [200]
    assert in_lake(reader) == [(0, offset) for offset in range(200)]


def test_by_hand_nothing_is_committed_and_nothing_more_is_read_until_somebody_says_so(
    broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 5)
    pipeline = open_subscription(name, commit_strategy="manual")
    assert run(pipeline).error is None
    produce(name, 5)
    assert "waits for `tidegate commit" in run(pipeline).why
    assert committed(broker, f"{name}-lake", (name, 0)) == [0]
    assert pipeline.commit_open().outcome is Outcome.COMMITTED
    assert committed(broker, f"{name}-lake", (name, 0)) == [5]
    run(pipeline)
    assert in_lake(pipeline) == [(0, offset) for offset in range(10)]


def test_ignore_reads_from_the_cursor_in_each_run_and_leaves_the_group_alone(
    broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 5)
    for _ in range(2):
        ended = run(open_subscription(name, commit_strategy="ignore", cursor=Cursor("AT_OFFSET", offset=2)))
        assert ended.error is None
        assert ended.batch is not None
        assert (ended.batch.condition, ended.to_json()["committed"]) == (Outcome.UNCOMMITTED, {})
    assert committed(broker, f"{name}-lake", (name, 0)) == [-1001]
    assert in_lake(open_subscription(name)) == [(0, offset) for offset in (2, 2, 3, 3, 4, 4)]


class BeforeTheJob:
    """Notes where the group stands when the job is about to begin; implements effects.Watcher."""

    def __init__(self, stands: Callable[[], list[int]]) -> None:
        self.stood: list[list[int]] = []
        self._stands = stands

    def before(self, effect: Effect) -> None:
        if effect == Effect.of(Processor.run):
            self.stood.append(self._stands())

    def after(self, effect: Effect) -> None:
        pass


def test_on_receipt_the_group_has_moved_before_the_job_begins(
    broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 5)
    job = BeforeTheJob(lambda: committed(broker, f"{name}-lake", (name, 0)))
    ended = run(watched(open_subscription(name, commit_strategy="on-receipt"), job))
    assert (ended.error, job.stood) == (None, [[5]])
