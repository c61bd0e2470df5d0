"""Run and drain, previewed: what the next run, or the next ones, would take."""

import math
from typing import Any

from tidegate.model.counting import counted
from tidegate.model.errors import WrongDefinitionError
from tidegate.monitoring.status import status_of
from tidegate.operations.actions.clearing import EFFECTS
from tidegate.operations.actions.preview import ActionPreview, AffectedPartition
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.preview import Preview

MOST_RUNS = 20
"""So many runs are begun at once, at most, by a drain."""


def records_waiting(pipeline: Pipeline) -> int | None:
    """The records that no batch has yet, counted as offsets; None where no broker answers."""
    status = status_of(pipeline, 1)
    if status.lag is None:
        return None
    open_batches = [
        entry.batch for entry in status.history if entry.batch.is_open and not entry.batch.offsets_committed
    ]
    return status.lag - sum(r.end - r.start for batch in open_batches for r in batch.ranges)


def preview_run(pipeline: Pipeline) -> ActionPreview:
    """What one run would do now. Raises what its plan would, StoppedError among it."""
    seen = pipeline.preview()
    return ActionPreview(
        "run",
        pipeline.subscription.name,
        _sentence(f"One run is triggered: {seen.why}"),
        {},
        _facts(seen),
        _consequences(seen),
        _affected(seen),
        total=sum(each.count for each in _affected(seen)),
    )


def preview_drain(pipeline: Pipeline, runs: int | None) -> ActionPreview:
    """What so many runs would do, one after the other; None: as many as it takes, and `MOST_RUNS` at most.

    One run alone where the definition has `drain`: it begins those that follow. Raises WrongDefinitionError for a
    number that can't be begun.
    """
    if runs is not None and not 1 <= runs <= MOST_RUNS:
        raise WrongDefinitionError(f"runs must be from 1 to {MOST_RUNS}")
    subscription = pipeline.subscription
    seen = pipeline.preview()
    size, follow = subscription.consumer.max_poll_records, subscription.drain_max_runs
    waiting = (records_waiting(pipeline) or 0) if seen.is_open else seen.waiting
    needed = max(1, math.ceil(waiting / size) + seen.is_open)
    chosen = 1 if follow else runs or min(MOST_RUNS, needed)
    rest = f"{max(0, needed - chosen - (follow or 0)):,} more would be needed"
    said = [f"{counted(waiting, 'offset')} wait, and a run takes at most {size:,}; {rest}."]
    if follow:
        said.append(f"Up to {follow:,} runs follow it, as drain.max-runs allows, while a full batch waits.")
    else:
        said.append("A run whose batch failed is followed by one that delivers it again; once it is stopped, all fail.")
    return ActionPreview(
        "drain",
        subscription.name,
        _sentence(f"{counted(chosen, 'run')} {'is' if chosen == 1 else 'are'} triggered, one at a time: {seen.why}"),
        {"runs": chosen},
        _facts(seen),
        (*said, *_consequences(seen)),
        _affected(seen),
        total=waiting,
    )


def _facts(seen: Preview) -> dict[str, Any]:
    """Where the next run begins; how much has arrived since is no news."""
    return {
        "batch": [seen.batch.id, seen.batch.condition] if seen.batch and seen.is_open else None,
        "begins": {str(r.at): r.start for r in seen.batch.ranges} if seen.batch else {},
        "first": list(seen.first),
    }


def _consequences(seen: Preview) -> tuple[str, ...]:
    said = [f"First: {each}." for each in seen.first]
    for count, what in (
        (seen.reread, "read again"),
        (seen.skipped, "passed over unread"),
        (seen.unread_before, "before where it begins, and not read"),
    ):
        if count:
            said.append(f"{counted(count, 'offset')} {'is' if count == 1 else 'are'} {what}.")
    return (*said, *(f"New: {each}." for each in seen.changes))


def _affected(seen: Preview) -> tuple[AffectedPartition, ...]:
    if seen.batch is None:
        return ()
    decided = seen.batch.resolution if seen.batch.is_discarded else None
    effect = "read" if decided is None else EFFECTS[decided]
    ranges = [r for r in seen.batch.ranges if not r.is_empty]
    return tuple(AffectedPartition(r.at, r.start, r.end, r.end - r.start, effect) for r in ranges)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
