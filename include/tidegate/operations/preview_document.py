"""A preview as a document: what `tidegate plan --json` prints."""

from typing import Any

from tidegate.model.batch import Batch
from tidegate.model.manifest import ranges_to_json
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.absent_output import refuse_absent


def preview_document(pipeline: Pipeline) -> dict[str, Any]:
    """What the next run would do on this machine; `batch_id` only of an open batch, a new one has none yet.

    Raises what the run's plan would, UnavailableError for an output that isn't to be seen from here among it.
    """
    name = pipeline.subscription.name
    waiting = pipeline.ledger.look(name).open
    if waiting is not None or not pipeline.definitions.is_draining(name):
        refuse_absent(pipeline, waiting.output if waiting else pipeline.output, waiting)
    preview = pipeline.preview()
    return {
        "subscription": name,
        "next": preview.why,
        "first": list(preview.first),
        "batch_id": preview.batch.id if preview.batch and preview.is_open else None,
        "state": preview.batch.condition if preview.batch and preview.is_open else None,
        "waiting": preview.waiting,
        "ranges": _ranges(preview.batch) if preview.batch else [],
        "starts": [
            {
                "topic": each.at.topic,
                "partition": each.at.partition,
                "was": each.was,
                "offset": each.offset,
                "why": each.why,
            }
            for each in preview.starts
        ],
        "reread": preview.reread,
        "skipped": preview.skipped,
        "unread_before": preview.unread_before,
        "earlier": preview.earlier,
        "changes": list(preview.changes),
        "error": None,
    }


def _ranges(batch: Batch) -> list[dict[str, Any]]:
    """Those that hold anything, without the number of records, which nobody knows before they land."""
    ranges = (each for each in ranges_to_json(batch) if each["end"] > each["start"])
    return [{name: value for name, value in each.items() if name != "records"} for each in ranges]
