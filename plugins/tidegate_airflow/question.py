"""What a person reads whom the task ask asks: one line, and a page in Markdown."""

import re
from collections.abc import Mapping

from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.counting import counted
from tidegate.model.subscription import Subscription
from tidegate.steps.ask import Question
from tidegate.strategies.failure.dead_letters import DeadLetters
from tidegate.strategies.failure.fail import where

_LONGEST = 4000  # characters of a reason, which may hold the last lines of a Spark job
_BACKTICKS = re.compile(r"`+")


def subject(asked: Question) -> str:
    """One line."""
    batch = asked.batch
    often = "once" if asked.deliveries == 1 else f"{asked.deliveries} times"
    return f"{batch.subscription}: batch {batch.id} failed {often}. How is it to go on?"


def body(asked: Question, subscription: Subscription) -> str:
    """What failed, why, and what each answer does."""
    batch = asked.batch
    answers = "\n".join(f"- **{answer}**: {does}" for answer, does in _answers(asked, subscription).items())
    return (
        f"Batch {code(batch.id)} of subscription {code(batch.subscription)}, group {code(batch.group)}, failed "
        f"as often as it may: {counted(asked.deliveries, 'delivery', 'deliveries')} so far. The subscription stands "
        "still until somebody answers.\n\n"
        f"Its {counted(asked.records, 'record')}: {code(where(batch))}\n\n"
        f"Why:\n\n{fenced(asked.reason)}\n\n"
        f"Answers:\n\n{answers}\n\n"
        "The ledger keeps the answer, the note and who gave them. `tidegate clear` and the DAG `tidegate_clear` answer "
        "too; this task finds that out within a few minutes.\n"
    )


def code(text: object) -> str:
    """Text as code within a line: nothing in it is Markdown."""
    return f"`{' '.join(str(text).split()).replace('`', chr(39))}`"


def fenced(text: str) -> str:
    """Text as a block of code, however many backticks it holds; its middle is left out if it is too long."""
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]}\n[... {len(text) - _LONGEST} characters left out ...]\n{text[-half:]}"
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _answers(asked: Question, subscription: Subscription) -> Mapping[Resolution, str]:
    """What each answer does."""
    name = subscription.name
    tries = subscription.max_retries + 1
    often = "once" if tries == 1 else f"up to {tries} times"
    by_hand = asked.batch.commit_policy.commit_at is CommitPoint.MANUAL
    on = f"once {code(f'tidegate commit {name}')} has committed it" if by_hand else "after it"
    return {
        Resolution.REDELIVER: f"the same batch is delivered again, {often}, by a run that starts when this one has "
        "ended. Mend the job first.",
        Resolution.DEAD_LETTER: f"all of its records go to the topic {code(DeadLetters.of(subscription).topic)}, "
        "which must exist, each with the reason above. Nothing of the batch is published, and the subscription goes "
        f"on {on}.",
        Resolution.SKIP: f"nothing of the batch is published or kept elsewhere, and the subscription goes on {on}.",
        Resolution.STOP: f"it stays as it is, and every run fails, until {code(f'tidegate clear {name}')} or the DAG "
        "`tidegate_clear`.",
    }
