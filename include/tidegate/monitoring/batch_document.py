"""One batch as a document: what `tidegate batch show --json` prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.ledger.batch_record import BatchRecord, DeliveryRecord
from tidegate.model.batch import Batch
from tidegate.model.manifest import ranges_to_json
from tidegate.model.output_uri import batch_place
from tidegate.monitoring.status import outcome_to_json
from tidegate.ports import Generation, GenerationOutcome, HistoryEntry
from tidegate.spark.logs import log_path


def batch_document(record: BatchRecord, logs: Path) -> dict[str, Any]:
    """The batch with its ranges, landed files, deliveries, decisions and later generations.

    `logs` is the folder of the jobs' logs. Times in ISO 8601, durations in seconds. `planned_end` of a range is that of
    its plan, `end` what was landed of it.
    """
    batch = record.batch
    return {
        "subscription": batch.subscription,
        **listed_batch(record.entry, record.generations),
        "group": batch.group,
        "commit_strategy": batch.commit_strategy,
        "receipt": str(batch.receipt),
        "landed_at": record.landed_at.isoformat() if record.landed_at else None,
        "published_in": batch_place(batch.output, batch.id) if _is_published(batch) else None,
        "ranges": [
            {**each, "planned_end": record.planned_ends[r.at]}
            for each, r in zip(ranges_to_json(batch), batch.ranges, strict=True)
        ],
        "files": [{"uri": file.uri, "records": file.records, "bytes": file.bytes} for file in batch.files],
        "tries": [_delivery(each, log_path(logs, batch, each.number)) for each in record.deliveries],
        "decisions": [
            {"answer": each.answer, "by": each.by, "at": each.at.isoformat(), "note": each.note}
            for each in record.decisions
        ],
        "generations": [generation_document(each) for each in record.generations],
    }


def listed_batch(entry: HistoryEntry, generations: Sequence[Generation]) -> dict[str, Any]:
    """The batch as lists have it; `reprocessed` is the generation that is in its output now, if its run's isn't."""
    batch = entry.batch
    there = [each for each in generations if each.output == batch.output and each.outcome is GenerationOutcome.REPLACED]
    return {**outcome_to_json(entry), "reprocessed": generation_document(there[-1]) if there else None}


def generation_document(generation: Generation) -> dict[str, Any]:
    """A generation, as documents have it."""
    return {
        "batch_id": generation.batch_id,
        "generation": generation.number,
        "state": generation.outcome or "begun",
        "output": generation.output,
        "rows": generation.made.rows,
        "rejected": generation.made.rejected,
        "filtered": generation.made.filtered,
        "begun_at": generation.at.isoformat(),
        "ended_at": generation.ended_at.isoformat() if generation.ended_at else None,
        "by": generation.by,
        "note": generation.note,
    }


def _is_published(batch: Batch) -> bool:
    """Whether the ledger knows the batch to be in the lake; without a row it isn't."""
    return bool(batch.rows) and batch.is_published


def _delivery(delivery: DeliveryRecord, log: Path) -> dict[str, Any]:
    ended = delivery.finished_at
    return {
        "delivery": delivery.number,
        "outcome": delivery.outcome or "under way",
        "cause": delivery.cause,
        "reason": delivery.reason,
        "started_at": delivery.started_at.isoformat(),
        "finished_at": ended.isoformat() if ended else None,
        "seconds": round((ended - delivery.started_at).total_seconds(), 3) if ended else None,
        "log": str(log) if log.is_file() and log.stat().st_size else None,
    }
