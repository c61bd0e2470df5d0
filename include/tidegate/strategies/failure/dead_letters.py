"""The record that goes to a dead-letter topic, and how many of them a batch may have.

Headers as SmallRye's KafkaDeadLetterQueue writes them, save that they stand behind the record's own: so the last of a
name, which is the one that is read, is this failure's, even if the record was a dead letter before.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Self

from tidegate.model import dead_letter_headers
from tidegate.model.batch import Batch, Resolution
from tidegate.model.errors import RecordsFailedError, advised
from tidegate.model.manifest import Rejections
from tidegate.model.records import Outgoing, Rejected, utf8
from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.strategy import AtLimit

_LIMIT = "dead-letter-queue.limit"
_LEAST = 10
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")
_ALL = 100
_OF_EARLIER_FAILURES = (dead_letter_headers.UNDECODABLE_FLAG, dead_letter_headers.REPLAY)
"""Headers that stay with no record: they would say of this failure what was so of an earlier one."""


def dead_letter(record: Rejected, topic: str, replay: str | None = None) -> Outgoing:
    """The dead letter of a record: key, value and headers as they were, then those of `model.dead_letter_headers`.

    `replay` names the one that rejected it, None for the subscription itself.

    What a failed deserialization added stays too, save for its flag, as with SmallRye: it would make whoever reads
    the dead letter a dead letter of it at once.
    """
    failure = record.failure
    told = {
        dead_letter_headers.EXCEPTION_CLASS_NAME: failure.kind,
        dead_letter_headers.REASON: failure.reason,
        dead_letter_headers.CAUSE_CLASS_NAME: failure.cause_kind,
        dead_letter_headers.CAUSE: failure.cause,
        dead_letter_headers.TOPIC: record.at.topic,
        dead_letter_headers.PARTITION: str(record.at.partition),
        dead_letter_headers.OFFSET: str(record.offset),
        dead_letter_headers.TIMESTAMP: str(-1 if record.timestamp is None else record.timestamp),
        dead_letter_headers.REPLAY: replay,
    }
    own = tuple(header for header in record.headers if header[0] not in _OF_EARLIER_FAILURES)
    ours = tuple((name, utf8(text)) for name, text in told.items() if text is not None)
    return Outgoing(topic, None, None, record.key, record.value, own + ours)


@dataclass(frozen=True, slots=True)
class DeadLetterLimit:
    """How many records of a batch may become dead letters: a number, or a share of the records that landed.

    A share of a small batch, of a few redriven records say, is less than one record or little more: so it allows ten
    dead letters whatever the batch's size. 0% allows none.
    """

    number: int | None = None
    share: Fraction | None = None

    def __post_init__(self) -> None:
        if (self.number is None) == (self.share is None):
            raise ValueError("a limit is either a number or a share")
        if (self.number or 0) < 0 or not 0 <= (self.share or 0) <= 1:
            raise ValueError(f"{self} is no limit: it must be a number from 0 on, or a share from 0% to 100%")

    @classmethod
    def parse(cls, written: int | str) -> Self:
        """Read `100`, `"100"`, `"1%"` or `"0.5%"`. Raises ValueError for anything else."""
        text = str(written)
        if share := _SHARE.fullmatch(text):
            return cls(share=Fraction(share[1]) / _ALL)
        if isinstance(written, bool) or not (text.isascii() and text.isdecimal()):
            raise ValueError(f"{_LIMIT} must be a number of records, or a share of them as 1%; it is {written!r}")
        return cls(number=int(text))

    def __str__(self) -> str:
        """As it is written."""
        return str(self.number) if self.share is None else f"{float(self.share * _ALL):g}%"

    def is_passed(self, dead: int, landed: int) -> bool:
        """Whether so many dead letters are more than the limit allows a batch of so many records."""
        return dead > self._allowed(landed)

    @property
    def told(self) -> str:
        """What it allows, in words."""
        return f"{self}, or {_LEAST} if that is more" if self.share else str(self)

    def _allowed(self, landed: int) -> Fraction:
        if self.share is None:
            return Fraction(self.number or 0)
        return max(self.share * landed, Fraction(_LEAST)) if self.share else self.share

    def check(self, batch: Batch, rejections: Rejections) -> None:
        """Raises RecordsFailedError if the batch would have more dead letters than this. Ask before any is written."""
        dead = rejections.number + rejections.undecodable
        if self.is_passed(dead, batch.landed_records):
            raise RecordsFailedError(
                advised(
                    f"{dead} of {batch.landed_records} records would become dead letters, and {_LIMIT} allows "
                    f"{self.told}: none was written, and nothing is committed{_why(rejections)}",
                    batch,
                    "mend what they are rejected for, or raise the limit, then deliver it again",
                )
            )


def _why(rejections: Rejections) -> str:
    """Why the first of these was rejected, behind how many could not even be decoded."""
    undecodable = rejections.undecodable
    counted = [f"{undecodable} of them can't be decoded"] if undecodable else []
    whose = "the first of the others" if undecodable else "the first"
    return "".join(f"; {each}" for each in (*counted, *(f"{whose}: {one}" for one in rejections.first[:1])))


def after_last_retry(topic: str) -> str:
    """What the reason of a batch begins with whose records went to this topic."""
    return f"dead-lettered to {topic} after the last retry: "


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The strategy `dead-letter-queue`: what can't be processed goes to a topic, in the commit's own transaction."""

    topic: str
    limit: DeadLetterLimit | None = None
    replay: str | None = None

    @classmethod
    def of(cls, subscription: Subscription) -> Self:
        """As the definition has it."""
        queue = subscription.dead_letter_queue
        limit = None if queue.limit is None else DeadLetterLimit.parse(queue.limit)
        return cls(queue.of(subscription.name), limit, queue.replay)

    def judge(self, batch: Batch, rejections: Rejections) -> None:
        """Raises RecordsFailedError past the limit; records that couldn't be decoded count too."""
        if self.limit is not None:
            self.limit.check(batch, rejections)

    def at_limit(self, batch: Batch) -> AtLimit:
        """What is left of the batch becomes dead letters, or, if that may be more than the limit allows, it stops."""
        if too_many := self.too_many(batch):
            return AtLimit(Resolution.STOP, f"{too_many}: {batch.reason}")
        return AtLimit(Resolution.DEAD_LETTER, f"{after_last_retry(self.topic)}{batch.reason}")

    def too_many(self, batch: Batch) -> str | None:
        """That all of the batch's records are more than the limit allows, in words; None if they aren't."""
        if self.limit is None or not self.limit.is_passed(batch.landed_records, batch.landed_records):
            return None
        return f"all {batch.landed_records} records would become dead letters, and {_LIMIT} allows {self.limit}"

    def outgoing(self, rejected: Iterable[Rejected], now: datetime) -> Iterator[Outgoing]:  # noqa: ARG002 (the strategy's)
        """A dead letter for each."""
        return (dead_letter(record, self.topic, self.replay) for record in rejected)
