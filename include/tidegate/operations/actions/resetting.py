"""Reset, previewed: where the group's positions would go."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.model.counting import counted
from tidegate.model.errors import GroupInUseError, StaleError, first_few, message
from tidegate.operations import reset_syntax
from tidegate.operations.actions.preview import ActionPreview, AffectedPartition
from tidegate.ports import PositionChange
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.reset_group import ResetRequest, ResetResult, reset_group
from tidegate.steps.selection import partitions_of


def reset_request(pipeline: Pipeline, params: Mapping[str, Any], by: str) -> ResetRequest:
    """The request that the params of a form make: `to`, `offsets` or `by`, `partitions`, `abandon`, `dry_run`, `note`.

    Raises WrongDefinitionError for wrong values, see `reset_syntax`.
    """
    target = reset_syntax.target(params.get("to"), offsets=params.get("offsets"), by=params.get("by"))
    written = (params.get("partitions") or "").split()
    existing = partitions_of(pipeline.subscription, pipeline.source) if written else ()
    chosen = reset_syntax.partitions(written, existing) if written else None
    abandon, dry_run = bool(params.get("abandon")), bool(params.get("dry_run"))
    return ResetRequest(target, by, params.get("note") or "", chosen, abandon, dry_run)


def preview_reset(pipeline: Pipeline, request: ResetRequest) -> ActionPreview:
    """What the reset would move.

    Raises what it would raise, see `steps.reset_group`; StaleError where nothing would move.
    """
    name = pipeline.subscription.name
    found = reset_group(pipeline, replace(request, dry_run=True))
    if found.abandoned is None and all(each.before == each.after for each in found.changes):
        raise StaleError(message("the group stands there already: there is nothing to move", pipeline.place))
    if members := pipeline.offsets.members():
        why = f"the group has live members: {first_few(members)}"
        raise GroupInUseError(message(why, pipeline.place, "stop them first"))
    gives_up = found.abandoned
    return ActionPreview(
        "reset",
        name,
        _summary(found),
        {"offsets": _lines(found.changes), "abandon": gives_up is not None, "note": request.note or None},
        {
            "changes": [[str(each.at), each.before, each.after] for each in found.changes],
            "abandoned": [gives_up.id, gives_up.condition] if gives_up else None,
        },
        _consequences(found),
        tuple(_affected(each, found) for each in found.changes),
        total=sum(_count(each, found) for each in found.changes),
    )


def _summary(found: ResetResult) -> str:
    moved = [each for each in found.changes if each.before != each.after]
    again, passed = found.reread, found.skipped
    said = [f"{counted(again, 'offset')} {'is' if again == 1 else 'are'} read again"] if again else []
    said += [f"{counted(passed, 'offset')} {'is' if passed == 1 else 'are'} passed over unread"] if passed else []
    positions = counted(len(moved), "position")
    move = "moves" if len(moved) == 1 else "move"
    return f"{positions} of {len(found.changes):,} {move}: {' and '.join(said) or 'nothing is read again'}."


def _consequences(found: ResetResult) -> tuple[str, ...]:
    said = []
    if found.reread > found.reread_of_batch:
        said.append("What is read again is published again, beside what was published before.")
    if found.skipped:
        said.append("What is passed over is read by nobody.")
    if batch := found.abandoned:
        said.append(f"Batch {batch.id}, which is {batch.condition}, is abandoned: nothing of it is published.")
    if again := found.reread_of_batch:
        said.append(f"{counted(again, 'offset')} of it {'is' if again == 1 else 'are'} read again, in another batch.")
    return tuple(said)


def _affected(change: PositionChange, found: ResetResult) -> AffectedPartition:
    of_batch = found.reread_of_batch_in(change)
    if found.skipped_in(change):
        effect = "passed over"
    elif found.reread_in(change) or (of_batch and change.before != change.after):
        effect = "read again"
    elif change.before is None:
        effect = "gets a position"
    else:
        effect = "stays, and the batch is read again" if of_batch else "stays"
    return AffectedPartition(change.at, change.before, change.after, _count(change, found), effect)


def _lines(changes: tuple[PositionChange, ...]) -> str:
    return "\n".join(f"{each.at.topic},{each.at.partition},{each.after}" for each in changes)


def _count(change: PositionChange, found: ResetResult) -> int:
    return found.skipped_in(change) + found.reread_in(change) + found.reread_of_batch_in(change)
