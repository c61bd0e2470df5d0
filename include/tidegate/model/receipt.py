"""The receipt: what every commit and anchor of ours writes as offset metadata on every partition.

It tells whose a committed position is. A position without our receipt was moved by somebody else; two plans
that start from the same receipt are plans of the same batch.
"""

import hashlib
import uuid
from dataclasses import dataclass
from typing import Self

_MARK = "tidegate1"


@dataclass(frozen=True, slots=True)
class Receipt:
    """An incarnation, the batch that was committed (None for an anchor), and the number of that commit."""

    incarnation: str
    batch_id: str | None = None
    number: int = 0

    @classmethod
    def first(cls) -> Self:
        """The receipt of a new incarnation's anchor; its token is unique, never a counter."""
        return cls(uuid.uuid4().hex[:16])

    @classmethod
    def parse(cls, metadata: str | None) -> Self | None:
        """Read offset metadata; None where it isn't a receipt of ours."""
        match (metadata or "").split(" "):
            case [mark, incarnation, batch_id, number] if (
                mark == _MARK and incarnation and batch_id and number.isdecimal()
            ):
                return cls(incarnation, None if batch_id == "-" else batch_id, int(number))
            case _:
                return None

    def __str__(self) -> str:
        """As it stands in the offset's metadata."""
        return f"{_MARK} {self.incarnation} {self.batch_id or '-'} {self.number}"

    def batch_after(self, group: str) -> str:
        """The id of the batch that is planned while this receipt is in force, whatever its subscription is called.

        It begins with a letter, or Spark's partition discovery would take it for a number.
        """
        return _batch_id(f"{group}\n{self}")

    def batch_after_in_0_1(self, subscription: str, group: str) -> str:
        """The id that version 0.1 gave that batch: it may be published under it, and committed under this receipt."""
        return _batch_id(f"{subscription}\n{group}\n{self}")

    def next(self, batch_id: str) -> "Receipt":
        """The receipt that the commit of this batch writes."""
        return Receipt(self.incarnation, batch_id, self.number + 1)


def _batch_id(seed: str) -> str:
    return "b" + hashlib.sha256(seed.encode()).hexdigest()[:20]
