"""Reprocess: which published batches are made once more, and what that comes to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.dead_letters.redriven_batches import redriven_records
from tidegate.model.batch import Batch
from tidegate.model.counting import counted
from tidegate.model.errors import StaleError, WrongDefinitionError, location, message
from tidegate.operations.dead_letters import OpenDeadLetters
from tidegate.ports import Generation, Generations, HistoryEntry, Ledger, Outbox
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.moved_output import where_rows_are
from tidegate.steps.ownership import refuse_other_group
from tidegate.steps.reprocess import ReprocessRequest, preview_reprocess, reprocess

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Chosen:
    """The batches to be made once more, the oldest first, and those of the same time of which nothing is published.

    Of that time there may have been as many more batches as are `removed` from the ledger, before `oldest`.
    """

    batches: tuple[Batch, ...]
    left_out: tuple[Batch, ...] = ()
    removed: int = 0
    oldest: datetime | None = None


def chosen_batch(pipeline: Pipeline, batch_id: str) -> Chosen:
    """One batch of the subscription.

    Raises StaleError for another's, WrongDefinitionError for one that the ledger doesn't know.
    """
    name = pipeline.subscription.name
    try:
        batch = pipeline.ledger.batch(batch_id)
    except StaleError:
        why = "the ledger has no such batch, or has it no more, as `tidegate prune` removes batches after retention.ms"
        remedy = f"`tidegate batches {name}` lists those that it has"
        raise WrongDefinitionError(
            message(f"{why}: nothing was reprocessed", location(subscription=name, batch=batch_id), remedy)
        ) from None
    if batch.subscription != name:
        why = f"batch {batch_id} is subscription {batch.subscription}'s: nothing was reprocessed"
        remedy = (
            f"`tidegate reprocess {batch.subscription} --batch {batch_id}`, while there is a definition of that name"
        )
        raise StaleError(message(why, location(subscription=name), remedy))
    refuse_other_group(batch, pipeline.subscription)
    return Chosen((where_rows_are(pipeline)(batch),))


def chosen_between(pipeline: Pipeline, start: datetime, end: datetime, ended: int) -> Chosen:
    """The batches that were planned at or after the start and before the end; `ended` were ever published.

    Raises WrongDefinitionError where none of them is published.
    """
    history, is_all = _history(pipeline.ledger, pipeline.subscription.name, start)
    found = [entry.batch for entry in history if entry.opened_at < end]
    left = sum(_is_ended(entry.batch) for entry in history)
    chosen = Chosen(
        tuple(map(where_rows_are(pipeline), (each for each in reversed(found) if _is_ended(each)))),
        tuple(each for each in reversed(found) if not _is_ended(each)),
        max(0, ended - left) if is_all else 0,
        history[-1].opened_at if history else None,
    )
    if not chosen.batches:
        why = f"no batch that is published was planned from {start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
        if removed := removed_batches(chosen):
            why += f"; {removed}"
        remedy = f"`tidegate batches {pipeline.subscription.name}` says when each was"
        raise WrongDefinitionError(message(why, location(subscription=pipeline.subscription.name), remedy))
    return chosen


def _is_ended(batch: Batch) -> bool:
    return batch.is_published and not batch.is_open


def removed_batches(chosen: Chosen) -> str | None:
    """What to say of batches that the ledger has no more, and that may be of the time that is asked for."""
    if not chosen.removed or chosen.oldest is None:
        return None
    fact = f"{counted(chosen.removed, 'earlier batch', 'earlier batches')} can't be reprocessed"
    return (
        f"{fact}, as the ledger has no more of them: `tidegate prune` removes batches after retention.ms; the oldest "
        f"that is left was planned {chosen.oldest:%Y-%m-%d %H:%M:%S} UTC"
    )


def reprocess_all(
    pipeline: Pipeline,
    generations: Generations,
    chosen: Chosen,
    request: ReprocessRequest,
    letters: Outbox | None = None,
) -> Iterator[tuple[Batch, Generation]]:
    """Reprocess one batch after the other, each at once and whole; whoever is stopped has done those before."""
    for batch in chosen.batches:
        yield batch, reprocess(pipeline, generations, batch, request, letters)


def interrupted(name: str, batches: Sequence[Batch], done: int) -> str:
    """What to say where somebody interrupts it after so many of these batches; of none of them if it hadn't begun."""
    at, again = location(subscription=name), "run the same command again"
    if not batches:
        return message("interrupted: nothing was replaced", at, again)
    fact = f"interrupted after {done:,} of {counted(len(batches), 'batch', 'batches')}"
    if done == len(batches):
        return message(fact, at)
    fact += f"; batch {batches[done].id} was under way, and is done whole or not at all"
    if done + 1 < len(batches):
        fact += "; those after it are as they were"
    return message(fact, at, f"{again}: it goes on, and makes those that are done once more" if done else again)


def refuse_redriven(letters: OpenDeadLetters, chosen: Chosen, request: ReprocessRequest) -> None:
    """Raise StaleError for a batch of whose rejected records some were redriven: later batches make rows of them."""
    own = [each for each in chosen.batches if request.output_of(each) == each.output]
    rejected = [each for each in own if each.rejected or _rejected_again(letters.generations, each)]
    topics = letters.subscription.topics
    redriven = redriven_records(rejected, topics, letters.topic, letters.ledger) if rejected else Counter[str]()
    for batch in rejected:
        if count := redriven[batch.id]:
            why = f"{counted(count, 'dead letter')} of it went back into the topic, and later batches make rows of them"
            raise StaleError(message(f"{why}: nothing was reprocessed", batch, "name another --output"))


def _rejected_again(generations: Generations, batch: Batch) -> bool:
    return any(each.made.rejected for each in generations.of(batch.id))


def reprocess_document(pipeline: Pipeline, batch: Batch, request: ReprocessRequest) -> dict[str, Any]:
    """What would be done with a batch."""
    preview = preview_reprocess(pipeline, batch, request)
    return {
        "batch_id": batch.id,
        "records": batch.landed_records,
        "records_from": preview.source.value,
        "output": preview.output,
        "replaces_rows": preview.rows,
    }


def _history(ledger: Ledger, name: str, since: datetime) -> tuple[list[HistoryEntry], bool]:
    """The newest first, back to this instant, and whether that is all that the ledger has."""
    limit = _PAGE
    while True:
        found = ledger.history(name, limit)
        if len(found) < limit or found[-1].opened_at < since:
            of_time = [entry for entry in found if entry.opened_at >= since]
            return of_time, len(of_time) == len(found)
        limit *= 10
