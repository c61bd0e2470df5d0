"""One delivery of one batch in this process: the same four steps that the DAG runs, one after the other."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tidegate.batch import Batch, State
from tidegate.errors import BatchFailedError, StaleError, TidegateError, UnavailableError
from tidegate.manifest import ranges_to_json
from tidegate.pipeline import Pipeline


@dataclass(slots=True)
class Run:
    """What a run has done so far; complete when `run_batch` returns."""

    subscription: str
    group: str
    batch: Batch | None = None
    why: str = ""
    deliveries: int = 0
    error: TidegateError | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The batch's state, or `nothing` where there was nothing to read."""
        return str(self.batch.state) if self.batch else "nothing"

    def to_json(self) -> dict[str, Any]:
        """The run as `tidegate run --json` prints it: seconds per step, offsets as numbers."""
        batch = self.batch
        committed = batch is not None and batch.state is State.COMMITTED
        return {
            "subscription": self.subscription,
            "group": self.group,
            "batch_id": batch.id if batch else None,
            "state": self.state,
            "why": self.why,
            "delivery": self.deliveries,
            "records": batch.landed_records if batch else 0,
            "ranges": ranges_to_json(batch) if batch else [],
            "committed": {str(r.at): r.end for r in batch.ranges} if batch and committed else {},
            "rows": batch.rows if batch else None,
            "rejected": batch.rejected if batch else None,
            "seconds": {step: round(seconds, 3) for step, seconds in self.seconds.items()},
            "error": str(self.error) if self.error else None,
        }


def run_batch(pipeline: Pipeline, said: Callable[[str], None]) -> Run:
    """Plan, land, process and commit one batch; an error of plan, land or commit ends the run and stands in it."""
    subscription = pipeline.subscription
    run = Run(subscription.name, subscription.consumer.group_id)
    try:
        _steps(pipeline, run, said)
    except TidegateError as error:
        run.error = error
    if run.batch is not None:
        with suppress(UnavailableError, StaleError):  # a ledger that is away or lost is the run's own error already
            run.batch = pipeline.ledger.batch(run.batch.id)
            run.deliveries = pipeline.ledger.deliveries(run.batch.id)
    return run


def _steps(pipeline: Pipeline, run: Run, said: Callable[[str], None]) -> None:
    with _step("plan", run, said):
        plan = pipeline.plan()
        run.batch, run.why = plan.batch, plan.why
    if plan.batch is None:
        return
    with _step("land", run, said):
        for member in plan.members:
            pipeline.land(plan.batch.id, member)
    _settle(pipeline, plan.batch.id, run, said)


def _settle(pipeline: Pipeline, batch_id: str, run: Run, said: Callable[[str], None]) -> None:
    """Process and commit; whatever became of the delivery, commit has the last word: the limit is its to keep."""
    failed: BatchFailedError | None = None
    try:
        with _step("process", run, said):
            pipeline.process(batch_id)
    except BatchFailedError as error:
        failed = error
    try:
        with _step("commit", run, said):
            pipeline.commit(batch_id)
    except BatchFailedError as error:
        raise failed or error from None


@contextmanager
def _step(name: str, run: Run, said: Callable[[str], None]) -> Iterator[None]:
    said(name)
    began = time.monotonic()
    try:
        yield
    finally:
        run.seconds[name] = time.monotonic() - began
