"""Reprocess: make a batch that is published once more, and put that in place of it, or into another output.

What is made once more is a *generation* of the batch: its offsets, the group's positions and what the ledger has of the
batch stay as they are. The output knows the number of the generation that it has, in the same commit as the rows, so
that whoever died after that finds it done, and whoever slept through a later one is refused.
"""

import logging
from dataclasses import dataclass, replace
from itertools import takewhile

from tidegate.model import dead_letter_headers
from tidegate.model.batch import Batch, Delivery, Outcome
from tidegate.model.counting import counted
from tidegate.model.errors import StaleError, TidegateError, UnavailableError, WrongDefinitionError, message
from tidegate.model.manifest import Published
from tidegate.model.records import utf8
from tidegate.model.subscription import Subscription
from tidegate.ports import FIRST, Generation, GenerationOutcome, Generations, Made, Outbox
from tidegate.schemas.lookup import decoding_of
from tidegate.steps.absent_output import refuse_absent
from tidegate.steps.context import ProcessContext
from tidegate.steps.deliver import job_manifest, made_by_job
from tidegate.steps.moved_output import still_in
from tidegate.steps.produced_topics import refuse_missing_topics
from tidegate.steps.read_again import RecordsFrom, landed_records, source_of
from tidegate.steps.records_to_produce import produced
from tidegate.strategies.failure.registry import failure_strategy

log = logging.getLogger(__name__)

_MAY_BE_THERE = (UnavailableError, StaleError)
"""What says nothing of whether a generation is in its output, or will be."""


@dataclass(frozen=True, slots=True)
class ReprocessRequest:
    """Into which output, as a URI (None: each batch's own), who wants it and why.

    With `in_place` also an output may be replaced in which a reader may find half of either.
    """

    by: str
    note: str = ""
    output: str | None = None
    in_place: bool = False

    def output_of(self, batch: Batch) -> str:
        """The output that the batch goes into."""
        return self.output or batch.output


@dataclass(frozen=True, slots=True)
class ReprocessPreview:
    """From where a batch's records would come, into which output, and how many rows of it would be replaced there.

    None where there are none, or nobody knows.
    """

    batch: Batch
    source: RecordsFrom
    output: str
    rows: int | None


def refuse_unreplaceable(ctx: ProcessContext, batch: Batch, request: ReprocessRequest) -> None:
    """Raise StaleError for a batch that isn't published and closed, WrongDefinitionError where none can be replaced."""
    name = batch.subscription
    if batch.is_open:
        why = f"the batch is {batch.condition}, and only one that is committed is reprocessed: nothing was done"
        raise StaleError(message(why, batch, f"have it end first: {batch.how_to_end}"))
    if batch.outcome not in (Outcome.COMMITTED, Outcome.UNCOMMITTED) or not batch.is_published:
        why = f"the batch is {batch.condition}, and nothing of it is published: nothing was done"
        raise StaleError(message(why, batch, _where_its_records_are(batch)))
    if depends := depends_on_others(ctx.subscription, batch):
        remedy = f"`tidegate replay {name}` reads a range from its beginning, into another output"
        raise WrongDefinitionError(message(f"{depends}: nothing was done", batch, remedy))
    target = request.output_of(batch)
    if target == batch.output and not request.in_place and not ctx.lake.replaces_at_once(target):
        why = f"whoever reads {target} while a folder of it is replaced may find its files gone: nothing was done"
        raise WrongDefinitionError(message(why, batch, "name another --output, or say --in-place"))


def _where_its_records_are(batch: Batch) -> str:
    """What to do for the records of a batch of which nothing is published."""
    name = batch.subscription
    match batch.outcome:
        case Outcome.DEAD_LETTERED:
            return f"`tidegate dead-letters redrive {name}` has a later batch deliver them"
        case Outcome.RETRIED:
            return f"a later batch delivers them, from a retry topic: see `tidegate batches {name}`"
        case Outcome.ABANDONED:
            return f"a later batch has those that are still there: see `tidegate batches {name}`"
        case _:
            return f"`tidegate replay {name}` reads its records into another output"


def preview_reprocess(ctx: ProcessContext, batch: Batch, request: ReprocessRequest) -> ReprocessPreview:
    """What `reprocess` would replace, and from where its records would come. Raises as it does."""
    refuse_unreplaceable(ctx, batch, request)
    output = request.output_of(batch)
    newest = _in_output(ctx, batch, output)
    _refuse_retried(ctx, batch, output, newest)
    return ReprocessPreview(batch, source_of(ctx, batch), output, None if newest is None else newest.rows)


def _in_output(ctx: ProcessContext, batch: Batch, output: str) -> Published | None:
    """What the output has of the batch.

    Raises StaleError where it has lost the batch, as with a table that was made anew, and a later one has its records.
    """
    refuse_absent(ctx, output)
    newest = ctx.lake.replacement(output, batch.next_receipt)
    if newest is not None or output != batch.output:
        return newest
    found = still_in(ctx, output, batch)
    again = None if found else _read_again(ctx, batch)
    if again is not None:
        why = f"{output} has nothing of it any more, and batch {again.id} has read its records again: nothing was done"
        raise StaleError(message(why, batch, "reprocess that one, or name another --output"))
    return found


def _refuse_retried(ctx: ProcessContext, batch: Batch, output: str, newest: Published | None) -> None:
    """Raise StaleError for a batch records of which went to a retry topic: a later batch makes rows of them."""
    retried = (batch.rejected or 0) or (newest.rejected or 0 if newest else 0)
    if output == batch.output and retried and ctx.subscription.retry_topics:
        why = f"{counted(retried, 'rejected record')} went to a retry topic, and later batches make rows of them"
        raise StaleError(message(f"{why}: nothing was done", batch, "name another --output"))


def _read_again(ctx: ProcessContext, batch: Batch) -> Batch | None:
    """A later batch of the same output that has records of this one."""
    newer = (entry.batch for entry in ctx.ledger.history(batch.subscription, None))
    for later in takewhile(lambda each: each.id != batch.id, newer):
        if later.is_published and later.output == batch.output and _overlap(later, batch):
            return later
    return None


def _overlap(one: Batch, other: Batch) -> bool:
    of_other = {r.at: r for r in other.ranges}
    both = ((r, of_other[r.at]) for r in one.ranges if r.at in of_other)
    return any(max(a.start, b.start) < min(a.end, b.end) for a, b in both)


def refuse_unproducible(ctx: ProcessContext) -> None:
    """Raise WrongDefinitionError where rejected records go nowhere, or to a topic that isn't there."""
    subscription = ctx.subscription
    if not subscription.produced_topics:
        why = f"failure-strategy: {subscription.failure_strategy} produces no record, so there are no dead letters"
        raise WrongDefinitionError(message(f"{why}: nothing was done", ctx.place, "leave out --dead-letters"))
    refuse_missing_topics(subscription, ctx.source)


def reprocess(
    ctx: ProcessContext,
    generations: Generations,
    batch: Batch,
    request: ReprocessRequest,
    letters: Outbox | None = None,
) -> Generation:
    """Replace the batch by what the transform makes of its records now; the generation, which has ended.

    With `letters` the records that it rejects are produced there, as the failure strategy says, once the generation is
    in the output: whoever is killed before that is noted produces them again. One that was cut short is taken up: it
    is noted as done where the output has it, else made anew. One that failed has ended, and isn't in the output. Raises
    as `refuse_unreplaceable` does, as `steps.process` for what fails the job, and LostDataError, naming them, for
    records that neither the landing nor Kafka has any more. Nothing is replaced then.
    """
    refuse_unreplaceable(ctx, batch, request)
    if letters is not None:
        refuse_unproducible(ctx)
    output = request.output_of(batch)
    done = adopted(ctx, generations, batch, letters)
    if done is not None and done.output == output:
        return done
    ctx.processor.check()
    newest = _in_output(ctx, batch, output)
    _refuse_retried(ctx, batch, output, newest)
    beyond = FIRST if newest is None else newest.generation
    generation = generations.begin(batch.id, output, request.by, request.note, beyond)
    try:
        with landed_records(ctx, batch, _tokens_up_to(generations, generation)) as landed:
            made = _make(ctx, generations, generation, replace(landed, output=output), batch)
    except TidegateError as error:
        _refuse_superseded(generations, generation, batch)
        if isinstance(error, _MAY_BE_THERE):
            raise
        generations.fail(generation)
        raise type(error)(message(error, batch, "what was published of the batch stays")) from error
    _produce_rejected(ctx, letters, generation, batch)
    return _ended(ctx, generations, generation, made, batch)


def adopted(
    ctx: ProcessContext, generations: Generations, batch: Batch, letters: Outbox | None = None
) -> Generation | None:
    """The batch's open generation, noted as done, if its output has it."""
    open_one = next((each for each in generations.of(batch.id) if each.is_open), None)
    if open_one is None:
        return None
    found = ctx.lake.replacement(open_one.output, batch.next_receipt)
    if found is None or found.generation < open_one.number:
        return None
    log.info("generation %d is in %s already (%s)", open_one.number, open_one.output, batch)
    _produce_rejected(ctx, letters, open_one, batch)
    return _ended(ctx, generations, open_one, Made(found.rows, found.rejected, found.filtered), batch)


def _make(ctx: ProcessContext, generations: Generations, generation: Generation, landed: Batch, batch: Batch) -> Made:
    """Have the job make the generation, and put it in place."""
    token = generation.tokens[-1]
    delivery = Delivery(ctx.ledger.deliveries(batch.id) + generation.number - FIRST, token)
    decoding = decoding_of(landed, ctx.subscription.deserialization, landing=ctx.landing, registry=ctx.registry)
    manifest = replace(
        job_manifest(ctx, landed, delivery, decoding),
        staging=_staging(ctx, generation, token),
        generation=generation.number,
    )
    ctx.staged.make_folder(manifest.staging)
    result, counts = made_by_job(ctx, manifest, lambda: _refuse_superseded(generations, generation, batch))
    made = Made(counts.written, counts.rejected, result.filtered)
    won = replace(
        batch,
        output=landed.output,
        delivery=delivery,
        attempt=result.attempt,
        rows=made.rows,
        rejected=made.rejected,
        filtered=made.filtered,
        seal=counts.seal,
    )
    _refuse_superseded(generations, generation, batch)
    ctx.lake.replace(replace(manifest, batch=won), result.attempt)
    return made


def _ended(
    ctx: ProcessContext, generations: Generations, generation: Generation, made: Made, batch: Batch
) -> Generation:
    """Note the end, from which on no delivery of the generation can be published, and remove what isn't needed."""
    ended = generations.end(batch.id, generation.number, made)
    staged = (
        each
        for each in generations.of(batch.id)
        if each.output == generation.output
        and (each.number == generation.number or each.outcome is GenerationOutcome.FAILED)
    )
    folders = [_staging(ctx, each, token) for each in staged for token in each.tokens]
    ctx.lake.remove_superseded(generation.output, batch.next_receipt, folders)
    return ended


def _produce_rejected(ctx: ProcessContext, letters: Outbox | None, generation: Generation, batch: Batch) -> None:
    if letters is None:
        return
    rejected = ctx.lake.rejected(generation.output, batch.next_receipt)
    decided = failure_strategy(ctx.subscription).outgoing(rejected, ctx.ledger.now())
    outgoing = produced(decided, lambda said: log.error("%s", message(said, batch)))
    made = (dead_letter_headers.GENERATION, utf8(dead_letter_headers.generation_of(batch.id, generation.number)))
    sent = letters.send(replace(each, headers=(*each.headers, made)) for each in outgoing)
    log.info("%d records that were rejected have been produced (%s)", sent, batch)


def _staging(ctx: ProcessContext, generation: Generation, token: str) -> str:
    return ctx.lake.staging_of(generation.output, generation.batch_id, token, generation.number)


def _tokens_up_to(generations: Generations, generation: Generation) -> list[str]:
    """Those of the batch's deliveries, in their order, of which this one is the last."""
    tokens = [token for each in generations.of(generation.batch_id) for token in each.tokens]
    return tokens[: tokens.index(generation.tokens[-1]) + 1]


def _refuse_superseded(generations: Generations, generation: Generation, batch: Batch) -> None:
    now = next((each for each in generations.of(batch.id) if each.number == generation.number), None)
    if now is None or not now.is_open or now.tokens != generation.tokens:
        why = f"somebody else has taken up generation {generation.number} of the batch: this one gives way to it"
        raise StaleError(message(why, batch))


def depends_on_others(subscription: Subscription, batch: Batch) -> str | None:
    """What keeps a batch from being made again by itself, in words."""
    policy = batch.commit_policy
    if subscription.processing.endpoint is not None:
        return "its records went to an HTTP endpoint, where none can be replaced"
    if subscription.processing.change_feed is not None:
        return (
            "its rows are changes (processing.keys), and the table has only the newest row of each key, so that the "
            "batch isn't replaced by itself"
        )
    if policy.keeps_state:
        return f"commit-strategy: {batch.commit_strategy} hands each batch the state that the one before it left"
    if policy.commits_acknowledged:
        return f"commit-strategy: {batch.commit_strategy} let the job choose which records were the batch's"
    return None
