"""Replay, previewed: which offsets are read once more, and into which output."""

import math
from dataclasses import replace
from pathlib import Path

from tidegate.model.counting import counted
from tidegate.model.errors import StaleError, WrongDefinitionError, location, message
from tidegate.model.offsets import Range
from tidegate.operations import reset_syntax
from tidegate.operations.actions.preview import ActionPreview, AffectedPartition
from tidegate.operations.replay import Bound, ReplayRequest, preview_replay, target
from tidegate.ports import Replay
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.reset_group import By

_COMMAS_OF_A_LINE = 2


def replay_request(start: str, end: str, output: str, by: str, note: str = "") -> ReplayRequest:
    """The request for a replay between two bounds, as a form has them: a word, a time, or lines of offsets.

    Raises WrongDefinitionError for what is none of them.
    """
    if not output.strip():
        raise WrongDefinitionError("a replay needs an output: name a folder or URI, another one than the definition's")
    asked = f"from {_said(start)} to {_said(end)}"
    return ReplayRequest(_bound(start), _bound(end), output.strip(), asked, by, note)


def preview_of_replay(pipeline: Pipeline, start: str, end: str, request: ReplayRequest, home: Path) -> ActionPreview:
    """What the replay of this request, made of these bounds, would read.

    Raises what it would raise, see `runtime.replay`; StaleError for one that is done.
    """
    begun = {each.name for each in pipeline.ledger.replays(pipeline.subscription.name)}
    found = preview_replay(pipeline, request, home)
    if found.name not in begun:
        start, end = _lines(found.ranges, "start"), _lines(found.ranges, "end")
        exact = replay_request(start, end, request.output, request.by, request.note)
        found = replace(preview_replay(pipeline, exact, home), note=request.note)
    if found.is_done:
        why = f"this was replayed before, by {found.by} at {found.at:%Y-%m-%d %H:%M} UTC: there is nothing to do"
        raise StaleError(message(why, location(subscription=found.subscription), "name another range or output"))
    into = target(pipeline.subscription, found, home)
    return _preview(pipeline, (start, end), found, into, is_begun=found.name in begun)


def _preview(pipeline: Pipeline, bounds: tuple[str, str], found: Replay, into: str, *, is_begun: bool) -> ActionPreview:
    start, end = bounds
    total = sum(r.end - r.start for r in found.ranges)
    batches = counted(math.ceil(total / pipeline.subscription.consumer.max_poll_records), "batch").replace("hs", "hes")
    goes_on = (f"It was begun by {found.by} at {found.at:%Y-%m-%d %H:%M} UTC, and goes on with what is left.",)
    return ActionPreview(
        "replay",
        found.subscription,
        f"{counted(total, 'offset')} of {counted(len(found.ranges), 'partition')} are read once more, in about "
        f"{batches}, through the transform into {into}.",
        {"from": start, "to": end, "output": found.output, "note": found.note or None},
        {"name": found.name, "ranges": list(map(str, found.ranges)), "begun": is_begun},
        (*(goes_on if is_begun else ()), "The group's positions and the output of the subscription stay as they are."),
        tuple(AffectedPartition(r.at, r.start, r.end, r.end - r.start, "read once more") for r in found.ranges),
        total=total,
    )


def _bound(written: str) -> Bound:
    is_lines = written.count(",") >= _COMMAS_OF_A_LINE
    match reset_syntax.target(offsets=written) if is_lines else reset_syntax.target(written.strip()):
        case By():
            raise AssertionError("no bound is relative")
        case bound:
            return bound


def _said(written: str) -> str:
    """As the command line says it, so that either goes on with what the other has begun."""
    is_lines = written.count(",") >= _COMMAS_OF_A_LINE
    return f"offsets {' '.join(written.split())}" if is_lines else written.strip()


def _lines(ranges: tuple[Range, ...], which: str) -> str:
    return "\n".join(f"{r.topic},{r.partition},{getattr(r, which)}" for r in ranges)
