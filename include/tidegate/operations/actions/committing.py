"""Commit, previewed: the offsets of the batch that waits for its commit."""

from tidegate.model.counting import counted
from tidegate.operations.actions.preview import ActionPreview, AffectedPartition
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps import commit


def preview_commit(pipeline: Pipeline, batch_id: str | None = None) -> ActionPreview:
    """What `tidegate commit` would commit. Raises StaleError if no batch waits, or somebody moved the group."""
    found = commit.preview_commit(pipeline, batch_id)
    batch, positions = found.batch, found.positions
    ranges = [r for r in batch.ranges if not r.is_empty]
    starts = {r.at: positions[r.at].offset if r.at in positions else None for r in ranges}
    offsets = sum(max(0, r.end - (starts[r.at] or 0)) for r in ranges)
    what = "nothing of it is published" if batch.is_discarded else "its output is published"
    done = ("The group stands at its ends already: the ledger alone is told.",) if found.is_done else ()
    return ActionPreview(
        "commit",
        batch.subscription,
        f"The offsets of batch {batch.id} with {counted(batch.landed_records, 'record')} are committed; {what}.",
        {"batch": batch.id},
        {"condition": batch.condition, "positions": {str(at): start for at, start in starts.items()}},
        (*done, "The next run goes on after it."),
        tuple(AffectedPartition(r.at, starts[r.at], r.end, batch.records.get(r.at, 0), "committed") for r in ranges),
        "records",
        batch.landed_records if ranges else offsets,
    )
