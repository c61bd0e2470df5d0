"""Clear, previewed: what becomes of a batch that stopped its subscription, by the answer."""

from tidegate.model.batch import Batch, Resolution
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.counting import counted
from tidegate.model.subscription import Subscription
from tidegate.operations.actions.preview import ActionPreview, AffectedPartition
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.clear import clearable
from tidegate.strategies.failure.dead_letters import DeadLetters

EFFECTS = {
    Resolution.REDELIVER: "delivered again",
    Resolution.DEAD_LETTER: "to the dead-letter topic",
    Resolution.RETRY_LATER: "to a retry topic",
    Resolution.SKIP: "ignored",
    Resolution.STOP: "stays",
}
"""What becomes of a batch's offsets, in a word of a preview."""


def what_follows(batch: Batch, answer: Resolution) -> str:
    """What the next run does with a batch that was cleared so."""
    records = counted(batch.landed_records, "record")
    match answer:
        case Resolution.REDELIVER:
            return "the next run delivers it again"
        case Resolution.STOP:
            return "every run fails until it is cleared"
        case Resolution.DEAD_LETTER:
            does = f"the next run sends its {records} to the dead-letter topic"
        case _:
            does = f"the next run ends it, and publishes nothing of its {records}"
    if batch.commit_policy.commit_at is CommitPoint.MANUAL:
        return f"{does}; the subscription goes on once `tidegate commit {batch.subscription}` has committed it"
    return f"{does}, and goes on after it"


def preview_clear(
    pipeline: Pipeline, answer: Resolution, batch_id: str | None = None, note: str | None = None
) -> ActionPreview:
    """What clearing with this answer would do. Raises what clearing would raise, see `steps.clear`."""
    subscription, ledger = pipeline.subscription, pipeline.ledger
    batch = clearable(pipeline, answer, batch_id)
    becomes, consequences = _told(batch, answer, subscription)
    named = f"Batch {batch.id} with {counted(batch.landed_records, 'record')}, which is {batch.condition},"
    return ActionPreview(
        "clear",
        subscription.name,
        f"{named} {becomes}.",
        {"answer": str(answer), "batch": batch.id, "note": note},
        {"condition": batch.condition, "deliveries": ledger.deliveries(batch.id)},
        consequences,
        tuple(
            AffectedPartition(r.at, r.start, r.end, batch.records.get(r.at, 0), EFFECTS[answer])
            for r in batch.ranges
            if not r.is_empty
        ),
        "records",
        batch.landed_records,
    )


def _told(batch: Batch, answer: Resolution, subscription: Subscription) -> tuple[str, tuple[str, ...]]:
    """What becomes of the batch, and what follows from that."""
    by_hand = f"The subscription goes on after it once `tidegate commit {subscription.name}` has committed it."
    is_by_hand = batch.commit_policy.commit_at is CommitPoint.MANUAL
    goes_on = by_hand if is_by_hand else "The next run goes on after it."
    match answer:
        case Resolution.REDELIVER:
            tries = f"up to {subscription.max_retries + 1:,} times" if subscription.max_retries else "once"
            return "is delivered again by the next run", (f"It is delivered {tries}. Correct the cause first.",)
        case Resolution.DEAD_LETTER:
            letters = DeadLetters.of(subscription)
            too_many = letters.too_many(batch)
            passes = (f"{too_many}; this answer passes it.",) if too_many else ()
            return f"goes to the topic {letters.topic}; nothing of it is published", (goes_on, *passes)
        case Resolution.SKIP:
            return "is ignored: nothing of it is published or kept elsewhere", (goes_on,)
        case _:
            return "is stopped, or stays so", ("Every run fails until it is cleared.",)
