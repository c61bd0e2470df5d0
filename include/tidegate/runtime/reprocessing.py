"""Reprocess: which published batches are made once more, and what that comes to."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.model.batch import Batch
from tidegate.model.errors import StaleError, WrongDefinitionError, location, message
from tidegate.ports import Generation, Generations, HistoryEntry, Ledger, Outbox
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.ownership import own_batch
from tidegate.steps.reprocess import ReprocessRequest

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Chosen:
    """The batches to be made once more, the oldest first, and those of the same time of which nothing is published."""

    batches: tuple[Batch, ...]
    left_out: tuple[Batch, ...] = ()


def chosen_batch(pipeline: Pipeline, batch_id: str) -> Chosen:
    """One batch of the subscription. Raises StaleError for one that the ledger doesn't know."""
    try:
        return Chosen((own_batch(pipeline.subscription, batch_id, pipeline.ledger),))
    except StaleError as error:
        remedy = f"`tidegate batches {pipeline.subscription.name}` lists those that aren't pruned"
        raise StaleError(message(error, remedy=remedy)) from error


def chosen_between(pipeline: Pipeline, start: datetime, end: datetime) -> Chosen:
    """The batches that were planned at or after the start and before the end.

    Raises WrongDefinitionError where none of them is published.
    """
    found = [
        entry.batch for entry in _history(pipeline.ledger, pipeline.subscription.name, start) if entry.opened_at < end
    ]
    chosen = Chosen(
        tuple(each for each in reversed(found) if each.is_published and not each.is_open),
        tuple(each for each in reversed(found) if not each.is_published or each.is_open),
    )
    if not chosen.batches:
        why = f"no batch that is published was planned from {start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
        remedy = f"`tidegate batches {pipeline.subscription.name}` says when each was"
        raise WrongDefinitionError(message(why, location(subscription=pipeline.subscription.name), remedy))
    return chosen


def reprocess_all(
    pipeline: Pipeline,
    generations: Generations,
    chosen: Chosen,
    request: ReprocessRequest,
    letters: Outbox | None = None,
) -> Iterator[tuple[Batch, Generation]]:
    """Reprocess one batch after the other, each at once and whole; whoever is stopped has done those before."""
    for batch in chosen.batches:
        yield batch, pipeline.reprocess(generations, batch, request, letters)


def preview_document(pipeline: Pipeline, batch: Batch, request: ReprocessRequest) -> dict[str, Any]:
    """What would be done with a batch."""
    preview = pipeline.preview_reprocess(batch, request)
    return {
        "batch_id": batch.id,
        "records": batch.landed_records,
        "records_from": preview.source.value,
        "output": preview.output,
        "replaces_rows": preview.rows,
    }


def _history(ledger: Ledger, name: str, since: datetime) -> list[HistoryEntry]:
    """The newest first, back to this instant."""
    limit = _PAGE
    while True:
        found = ledger.history(name, limit)
        if len(found) < limit or found[-1].opened_at < since:
            return [entry for entry in found if entry.opened_at >= since]
        limit *= 10
