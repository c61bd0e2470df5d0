"""What an action would do: shown before it is done, and compared when it is."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.model.errors import StaleError, location, message
from tidegate.model.offsets import TopicPartition

Counted = Literal["records", "offsets"]


@dataclass(frozen=True, slots=True)
class AffectedPartition:
    """A partition that an action concerns: from `start` (None where there is no position) to `end`, which may be lower.

    `count` is the number of records, or of offsets where nobody knows how many records they hold.
    """

    at: TopicPartition
    start: int | None
    end: int
    count: int
    effect: str


@dataclass(frozen=True, slots=True)
class ActionPreview:
    """An action on a subscription as it would be carried out now.

    `summary` is one sentence, `consequences` are more of them. `params` carry out exactly this; `facts`, values of
    JSON, hold as long as the preview does.
    """

    action: str
    subscription: str
    summary: str
    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    consequences: tuple[str, ...] = ()
    partitions: tuple[AffectedPartition, ...] = ()
    counted: Counted = "offsets"
    total: int = field(default=0)

    @property
    def digest(self) -> str:
        """The same for the same action, as long as it comes to the same."""
        seen = [self.action, self.subscription, dict(self.params), dict(self.facts)]
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:32]

    def check(self, previewed: str | None) -> None:
        """Raise StaleError unless this is what was previewed; None for an action that nobody previewed."""
        if previewed not in (None, self.digest):
            raise StaleError(
                message(
                    "what was previewed isn't so any more: nothing was done",
                    location(subscription=self.subscription),
                    f"preview again; now: {self.summary}",
                )
            )
