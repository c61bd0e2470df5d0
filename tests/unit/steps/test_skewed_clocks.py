"""What one machine notes and another looks at is compared by the ledger's clock, however wrong those two have it."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.monitoring.health import Verdict
from tidegate.monitoring.status import status_of
from tidegate.ports import Clock
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.clock import SkewedClock
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.processor import Acks

FIRST, DEAD = "orders_retry_1000", "dead"
DAY = timedelta(days=1).total_seconds()
WRONG = pytest.mark.parametrize("ahead", [-400, 400])


def on(pipeline: Pipeline, ahead: float) -> Pipeline:
    """The pipeline on a machine whose clock is so many seconds ahead."""
    return replace(pipeline, clock=SkewedClock(pipeline.clock, ahead))


@WRONG
@pytest.mark.parametrize("noted_by_the_wrong_one", [True, False])
def test_an_idle_group_is_committed_anew_after_a_day(ahead: int, *, noted_by_the_wrong_one: bool) -> None:
    world = World()
    pipeline = world.pipeline(poll_timeout_ms=0)
    wrong = on(pipeline, ahead)
    first, second = (wrong, pipeline) if noted_by_the_wrong_one else (pipeline, wrong)
    first.plan()
    commits = len(world.offsets.commits)
    world.clock.wait(DAY - 1)
    second.plan()
    assert len(world.offsets.commits) == commits
    world.clock.wait(1)
    second.plan()
    assert len(world.offsets.commits) == commits + 1


@WRONG
@pytest.mark.parametrize(("waited", "is_late"), [(9, False), (11, True)])
def test_a_state_waits_to_be_stored(
    ahead: int, waited: int, caplog: pytest.LogCaptureFixture, *, is_late: bool
) -> None:
    world = World()
    world.offsets = MemoryOffsets("orders-lake", fencing=True, keeps_state=True)
    world.processor.fold = lambda _: "{}"
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="checkpoint", unsynced_state_max_age_ms=10_000)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.clock.wait(waited)
    assert status_of(on(pipeline, ahead), 5).facts.overdue is is_late
    with caplog.at_level(logging.ERROR):
        on(pipeline, ahead).settle(batch.id)
    assert ("checkpoint.unsynced-state-max-age.ms" in caplog.text) is is_late


def retrying(world: World, **chosen: Any) -> Pipeline:
    for name in (FIRST, DEAD):
        world.topics.create(name, 1)
    retry = DelayedRetryTopic(topics=(FIRST,), **chosen)
    queue = DeadLetterQueue(topic=DEAD)
    named = {"failure_strategy": "delayed-retry-topic", "dead_letter_queue": queue, "delayed_retry_topic": retry}
    return world.pipeline(poll_timeout_ms=1, **named)


@WRONG
@pytest.mark.parametrize("sent_by_the_wrong_one", [True, False])
def test_a_retry_is_due_after_its_delay(ahead: int, *, sent_by_the_wrong_one: bool) -> None:
    world = World()
    pipeline = retrying(world)
    wrong = on(pipeline, ahead)
    first, second = (wrong, pipeline) if sent_by_the_wrong_one else (pipeline, wrong)
    world.produce(1)
    world.processor.rejected = 1
    assert deliver(first) is not None
    world.processor.rejected = 0
    world.clock.wait(0.9)
    assert deliver(second) is None
    world.clock.wait(0.2)
    assert deliver(second) is not None
    assert world.committed(topic=FIRST) == 2


@WRONG
def test_the_time_for_all_retries_of_a_record_passes(ahead: int) -> None:
    """What failed first on one machine, and then on another, whose clock is beyond that time."""
    world = World()
    pipeline = retrying(world, max_retries=2, timeout_ms=120_000)
    world.produce(1)
    world.processor.rejected = 1
    for machine in (pipeline, on(pipeline, ahead)):
        assert deliver(machine) is not None
        world.clock.wait(1.1)
    assert [each.topic for each in world.kafka.produced] == [FIRST, FIRST]


class SetMeanwhile(SkewedClock):
    """Somebody sets the clock a few seconds after this."""

    def __init__(self, clock: Clock, to: float) -> None:
        super().__init__(clock)
        self._set, self._to = clock.monotonic() + 3, to

    def now(self) -> datetime:
        self.ahead = self._to if self.monotonic() > self._set else 0
        return super().now()


@WRONG
def test_a_job_that_acknowledges_has_its_time_though_somebody_sets_the_clock(ahead: int) -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(commit_strategy="throttled", unprocessed_record_max_age_ms=60_000)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.acks = [Acks({TopicPartition("orders", 0): [offset]}) for offset in range(3)]
    replace(pipeline, clock=SetMeanwhile(world.clock, ahead)).process(batch.id)
    assert [offsets for offsets, _ in world.offsets.commits[1:]] == [
        {TopicPartition("orders", 0): n} for n in (1, 2, 3)
    ]


def test_the_verdict_of_failing_runs_is_by_the_clock_that_noted_them() -> None:
    world = World()
    pipeline = world.pipeline()
    world.produce(1)
    pipeline.plan()
    pipeline.note("it failed", "UnavailableError")
    (finding,) = status_of(on(pipeline, 3600), 1).findings
    assert finding.verdict is Verdict.WARN
