"""What a runner does in one run: a DAG run as Airflow makes it, or what a person does between two of them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.errors import LostDataError, StaleError, StoppedError, TidegateError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.ownership import accept_cluster
from tidegate.steps.reset_group import ResetRequest, ToOffsets, reset_group

_FINAL = (WrongDefinitionError, LostDataError, StaleError, StoppedError)

Told = Callable[[str, object], None]
Work = Callable[[Pipeline, Told, int], None]
"""One run of this pipeline, which says what fails, with so many retries of each task."""


def dag_run(pipeline: Pipeline, told: Told, retries: int = 0) -> None:
    """A failed task fails those after it, but the last one runs once there is a batch."""
    planned, plan = _attempt("plan", pipeline.plan, told, retries)
    if not planned or plan.batch is None:
        return
    batch_id = plan.batch.id
    members = [_attempt(f"land {m}", partial(pipeline.land, batch_id, m), told, retries)[0] for m in plan.members]
    goes_on = all(members)
    commit_at = pipeline.subscription.commit_policy.commit_at
    if commit_at is CommitPoint.LANDED and goes_on:
        goes_on, _ = _attempt("commit", lambda: pipeline.receive(batch_id), told, retries)
    if goes_on:
        _attempt("process", lambda: _process(pipeline, batch_id), told, retries)
    last = "commit" if commit_at is CommitPoint.PUBLISHED else "publish"
    _attempt(last, lambda: pipeline.settle(batch_id), told, retries)


def _process(pipeline: Pipeline, batch_id: str) -> None:
    """The task process, which commits on receipt what wasn't: its batch may have been planned by another definition."""
    pipeline.receive(batch_id)
    pipeline.process(batch_id)


def commits(pipeline: Pipeline, told: Told, retries: int = 0) -> None:
    """A person commits the batch that waits for it."""
    _attempt("commit by hand", pipeline.commit_open, told, retries)


def accepts(pipeline: Pipeline, told: Told, retries: int = 0) -> None:
    """A person accepts the cluster that the connection leads to."""
    _attempt("accept the cluster", lambda: accept_cluster(pipeline, "somebody"), told, retries)


def resets(to: Mapping[TopicPartition, int], *, abandon: bool) -> Work:
    """A person resets the group."""
    request = ResetRequest(ToOffsets(to), "somebody", abandon=abandon)
    return partial(_reset, request)


def _reset(request: ResetRequest, pipeline: Pipeline, told: Told, retries: int = 0) -> None:
    _attempt("reset the group", lambda: reset_group(pipeline, request), told, retries)


def clears(answer: Resolution) -> Work:
    """A person decides so about the batch that stopped or asks."""
    return partial(_clear, answer)


def _clear(answer: Resolution, pipeline: Pipeline, told: Told, retries: int = 0) -> None:
    _attempt(f"clear ({answer})", lambda: pipeline.clear("somebody", "", answer), told, retries)


def _attempt(step: str, call: Callable[[], Any], told: Told, retries: int) -> tuple[bool, Any]:
    for left in range(retries, -1, -1):
        try:
            return True, call()
        except TidegateError as error:
            told(f"{step} fails", error)
            if isinstance(error, _FINAL) or not left:
                break
    return False, None
