"""The strategy `latest`: the highest acknowledged record decides, whatever isn't acknowledged before it.

It may skip records, so it suits jobs that acknowledge in order. Rules: SmallRye's KafkaLatestCommit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.acknowledged import Acknowledged
from tidegate.model.batch import Batch
from tidegate.model.offsets import TopicPartition
from tidegate.strategies.commit.throttled import InParts, left


@dataclass(frozen=True, slots=True)
class Latest(InParts):
    """Commits each partition behind its highest acknowledged record; receipts are those of Throttled.

    A record may stay unacknowledged for ever.
    """

    def offsets(
        self, batch: Batch, acknowledged: Mapping[TopicPartition, Acknowledged], committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What to commit: the positions that move on from where the group stands; none goes back.

        `acknowledged` has every partition with a range that isn't empty, `committed` the group's positions; one that
        is missing stands at the start of its range.
        """
        return {r.at: latest for r in left(batch, committed) if (latest := acknowledged[r.at].latest(r)) > r.start}

    def check(
        self,
        batch: Batch,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        committed: Mapping[TopicPartition, int],
        *,
        received: float,
        now: float,
    ) -> None:
        """Nothing is ever overdue."""

    def expires(self, received: float) -> float | None:  # noqa: ARG002 (the strategy's)
        """Never."""
        return None
