"""What a job acknowledges while it runs is committed on the real broker; its files are real too."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from acknowledging import AcknowledgingProcessor, run_until_killed
from broker_world import Scene, carry_out, committed, in_lake

from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, StaleError
from tidegate.runtime.pipeline import Pipeline

if TYPE_CHECKING:
    from conftest import MakeScene

pytestmark = pytest.mark.broker

AN_HOUR_MS = 3_600_000
STEPS = ({0: [0, 1]}, {0: [3]}, {0: [2, 4], 1: [0]}, {0: [5]})


def with_job(pipeline: Pipeline, job: AcknowledgingProcessor) -> Pipeline:
    return replace(pipeline, processor=job)


def at_once(scene: "MakeScene", strategy: str, **values: Any) -> Scene:
    """A subscription whose acknowledgements are committed whenever its job is watched; six and two records."""
    return filled(scene, strategy, auto_commit_interval_ms=0, **values)


def filled(scene: "MakeScene", strategy: str, **values: Any) -> Scene:
    """As `at_once`, with an interval within which any job ends."""
    made = scene(partitions=2, commit_strategy=strategy, **{"auto_commit_interval_ms": AN_HOUR_MS} | values)
    made.feed.send(0, 6)
    made.feed.send(1, 2)
    return made


def stands(made: Scene) -> list[int]:
    """The group's positions; those of a transaction whose commit is still being carried out are waited for."""
    return committed(made.broker, made.group, (made.feed.topic, 0), (made.feed.topic, 1))


def is_settled(made: Scene, pipeline: Pipeline) -> bool:
    return stands(made) == [6, 2] and pipeline.ledger.look(made.subscription.name).open is None


@pytest.mark.parametrize("fence", ["transactional", "none"])
def test_the_committed_offset_moves_while_the_job_runs(scene: "MakeScene", fence: str) -> None:
    made = at_once(scene, "throttled", commit_fence=fence)
    seen: list[list[int]] = []
    job = AcknowledgingProcessor(*STEPS, after=lambda _: seen.append(stands(made)))
    with made.pipeline() as plain:
        pipeline = with_job(plain, job)
        batch = carry_out(pipeline, pipeline.plan())
        assert seen == [[2, 0], [2, 0], [5, 1], [6, 1]]
        assert batch is not None
        assert [(r.start, r.end) for r in batch.ranges] == [(0, 6), (0, 1)]
        assert stands(made) == [6, 1]
        following = with_job(plain, AcknowledgingProcessor())
        assert carry_out(following, following.plan()) is not None
        assert {*in_lake(plain)} == {(0, n) for n in range(6)} | {(1, 0), (1, 1)}
        assert is_settled(made, plain)


def test_latest_follows_the_highest(scene: "MakeScene") -> None:
    made = at_once(scene, "latest")
    seen: list[int] = []
    steps = ({0: [0]}, {0: [1]}, {0: [3]}, {0: [2], 1: [1]})
    job = AcknowledgingProcessor(*steps, after=lambda _: seen.append(stands(made)[0]))
    with made.pipeline() as plain:
        pipeline = with_job(plain, job)
        assert carry_out(pipeline, pipeline.plan()) is not None
    assert seen == [1, 2, 4, 4]
    assert stands(made) == [4, 2]


@pytest.mark.parametrize("lose_ledger", [False, True])
def test_a_run_that_was_killed_is_gone_on_from_where_it_had_committed(scene: "MakeScene", lose_ledger: bool) -> None:
    made = at_once(scene, "throttled")
    run_until_killed(made.subscription, made.settings, made.broker.bootstrap_servers, *STEPS[:3])
    assert stands(made) == [5, 1]
    if lose_ledger:
        made.lose_ledger()
    job = AcknowledgingProcessor()
    with made.pipeline() as plain:
        pipeline = with_job(plain, job)
        assert carry_out(pipeline, pipeline.plan()) is not None
        assert job.handed == [{0: (5, 6), 1: (1, 2)}]
        assert in_lake(plain) == [(0, 5), (1, 1)]
        assert is_settled(made, plain)


@pytest.mark.parametrize("lose_ledger", [False, True])
def test_what_nobody_saw_before_the_run_was_killed_is_committed_and_not_handed_out_again(
    scene: "MakeScene", lose_ledger: bool
) -> None:
    made = filled(scene, "throttled")
    run_until_killed(made.subscription, made.settings, made.broker.bootstrap_servers, *STEPS[:3])
    assert stands(made) == [0, 0]
    if lose_ledger:
        made.lose_ledger()
    job = AcknowledgingProcessor()
    with made.pipeline() as plain:
        pipeline = with_job(plain, job)
        assert carry_out(pipeline, pipeline.plan()) is not None
        assert job.handed == [{0: (5, 6), 1: (1, 2)}]
        assert in_lake(plain) == [(0, 5), (1, 1)]
        assert is_settled(made, plain)


@pytest.mark.parametrize(
    ("ended_by", "told"), [(RuntimeError, BatchFailedError), (KeyboardInterrupt, KeyboardInterrupt)]
)
def test_what_a_job_acknowledged_just_before_it_ended_badly_is_committed(
    scene: "MakeScene", ended_by: type[BaseException], told: type[BaseException]
) -> None:
    made = filled(scene, "throttled")

    def end(number: int) -> None:
        if number == 2:
            raise ended_by

    with made.pipeline() as plain:
        pipeline = with_job(plain, AcknowledgingProcessor(*STEPS[:3], after=end))
        with pytest.raises(told):
            carry_out(pipeline, pipeline.plan())
        assert stands(made) == [5, 1]
        following = with_job(plain, job := AcknowledgingProcessor())
        assert carry_out(following, following.plan()) is not None
        assert job.handed == [{0: (5, 6), 1: (1, 2)}]
        assert is_settled(made, plain)


def test_a_group_that_was_reset_while_the_job_ran_is_honoured(scene: "MakeScene") -> None:
    made = at_once(scene, "throttled")

    def reset(number: int) -> None:
        if number == 0:
            made.feed.reset(made.group, {0: 1})

    job = AcknowledgingProcessor(*STEPS[:1], *STEPS[2:], after=reset)
    with made.pipeline() as plain:
        pipeline = with_job(plain, job)
        plan = pipeline.plan()
        with pytest.raises(StaleError, match="stands at 1 without a receipt of ours"):
            carry_out(pipeline, plan)
        following = with_job(plain, job := AcknowledgingProcessor())
        assert carry_out(following, following.plan()) is not None
        assert job.handed == [{0: (1, 6), 1: (0, 2)}]
        assert plan.batch is not None
        assert plain.ledger.batch(plan.batch.id).outcome is Outcome.ABANDONED
        assert is_settled(made, plain)
