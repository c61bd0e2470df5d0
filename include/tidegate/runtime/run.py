"""One delivery of one batch in this process: the same steps that the DAG runs, one after the other."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.model.batch import Batch
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.errors import (
    BatchFailedError,
    InterruptedDeliveryError,
    OvertakenError,
    StaleError,
    TidegateError,
    UnavailableError,
)
from tidegate.model.manifest import ranges_to_json
from tidegate.ports import Ledger
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.retry_limit import MOST_INTERRUPTED

_PUBLISHED_NOTHING = "nothing was published; the next run goes on from here"
_INTERRUPTED: Mapping[str, str] = {
    "process": f"its job was stopped, and the delivery counts only if it was the {MOST_INTERRUPTED}th in a row; "
    f"{_PUBLISHED_NOTHING}",
    "publish": "the batch may be published already, which the next run finds out",
    "commit": "the batch may be published or committed already, which the next run finds out",
}
"""What an interrupt comes to, by the step in which it came."""
UNPROCESSED: Final = "the batch isn't processed: seeing what becomes of it"


@dataclass(slots=True)
class Run:
    """What a run has done so far; complete when `run_batch` returns. `why` says why it did less than a whole batch."""

    subscription: str
    group: str
    batch: Batch | None = None
    why: str = ""
    deliveries: int = 0
    error: TidegateError | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The batch's state; without a batch `interrupted`, `refused` for another error, else `nothing` (to read)."""
        if self.batch:
            return self.batch.condition
        if isinstance(self.error, InterruptedDeliveryError):
            return "interrupted"
        return "refused" if self.error else "nothing"

    def to_json(self) -> dict[str, Any]:
        """The run as `tidegate run --json` prints it: seconds per step, offsets as numbers."""
        batch = self.batch
        return {
            "subscription": self.subscription,
            "group": self.group,
            "batch_id": batch.id if batch else None,
            "state": self.state,
            "why": self.why,
            "delivery": self.deliveries,
            "records": batch.landed_records if batch else 0,
            "ranges": ranges_to_json(batch) if batch else [],
            "committed": {str(r.at): r.end for r in batch.ranges} if batch and batch.offsets_committed else {},
            "rows": batch.rows if batch else None,
            "rejected": batch.rejected if batch else None,
            "filtered": batch.filtered if batch else None,
            "seconds": {step: round(seconds, 3) for step, seconds in self.seconds.items()},
            "error": str(self.error) if self.error else None,
        }


def run_batch(pipeline: Pipeline, said: Callable[[str], None]) -> Run:
    """Plan, land, process and commit one batch, in its strategy's order; an error ends the run and stands in it.

    So does an interrupt. Each step is said as it begins: by its name, the last one behind a process that failed, or
    found another delivery under way, as `UNPROCESSED`.

    The batch of a run that is refused is the open one, which stands in its way.
    """
    subscription = pipeline.subscription
    run = Run(subscription.name, subscription.consumer.group_id)
    try:
        _Runner(pipeline, run, said).run_steps()
    except TidegateError as error:
        run.error = error
    except KeyboardInterrupt:
        where = next(reversed(run.seconds), "plan")
        run.error = InterruptedDeliveryError(f"interrupted in {where}: {_INTERRUPTED.get(where, _PUBLISHED_NOTHING)}")
    with suppress(UnavailableError, StaleError):  # a ledger that is away or lost is the run's own error already
        _look_back(run, pipeline.ledger)
    return run


def _look_back(run: Run, ledger: Ledger) -> None:
    """What became of the run's batch."""
    if run.batch is not None:
        run.batch = ledger.batch(run.batch.id)
    elif run.error is not None:
        run.batch = ledger.look(run.subscription).open
    if run.batch is not None:
        run.deliveries = ledger.deliveries(run.batch.id)


@dataclass(frozen=True, slots=True)
class _Runner:
    pipeline: Pipeline
    run: Run
    said: Callable[[str], None]

    def run_steps(self) -> None:
        with self._step("plan"):
            plan = self.pipeline.plan()
            self.run.batch, self.run.why = plan.batch, plan.why
        if plan.batch is None:
            return
        with self._step("land"):
            for member in plan.members:
                self.pipeline.land(plan.batch.id, member)
        commit_at = plan.batch.commit_policy.commit_at
        if commit_at is CommitPoint.LANDED:
            with self._step("commit"):
                self.pipeline.receive(plan.batch.id)
        self._process(plan.batch.id, last="commit" if commit_at is CommitPoint.PUBLISHED else "publish")

    def _process(self, batch_id: str, last: str) -> None:
        """Process, and settle whatever became of the delivery: that has the last word, the limit is its to keep."""
        failed: BatchFailedError | None = None
        try:
            with self._step("process"):
                self.pipeline.process(batch_id)
        except OvertakenError as error:
            self.run.why = str(error)
        except BatchFailedError as error:
            failed = error
        try:
            with self._step(last, UNPROCESSED if failed else last):
                self.pipeline.settle(batch_id)
        except BatchFailedError as error:
            raise failed or error from None

    @contextmanager
    def _step(self, name: str, said: str = "") -> Iterator[None]:
        self.said(said or name)
        began = time.monotonic()
        try:
            yield
        finally:
            self.run.seconds[name] = time.monotonic() - began
