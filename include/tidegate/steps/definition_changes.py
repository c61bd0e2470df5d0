"""What a definition has otherwise than when a batch was planned."""

from collections.abc import Sequence

from tidegate.model.batch import Batch
from tidegate.model.output_uri import parse_output
from tidegate.steps.context import Context


def as_planned(ctx: Context, last: Batch) -> dict[str, tuple[object, object, str]]:
    """By property: what a batch was planned with, what the definition says now, and what is to be known of a change."""
    was, now = parse_output(last.output), parse_output(ctx.output)
    subscription = ctx.subscription
    members = {"members": (len(last.shares), subscription.members, "")}
    return {
        "commit-strategy": (last.commit_strategy, subscription.commit_strategy, ""),
        "processing.format": (was.format, now.format, ""),
        "processing.output": (was.place, now.place, "; what is published stays where it is"),
        "processing.partition-by": (_named(last.partition_by), _named(subscription.processing.partition_by), ""),
        **({} if subscription.landing_engine == "spark" else members),
    }


def definition_changes(ctx: Context) -> tuple[str, ...]:
    """What the next batch has otherwise than the last one had, in words; nothing before the first one."""
    last = next((entry.batch for entry in ctx.ledger.history(ctx.subscription.name, 1)), None)
    if last is None:
        return ()
    compared = {
        "consumer.group.id": (f"group {last.group}", f"group {ctx.subscription.consumer.group_id}", ""),
        **as_planned(ctx, last),
    }
    return tuple(f"{name}: {was} becomes {now}{so}" for name, (was, now, so) in compared.items() if was != now)


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "none"
