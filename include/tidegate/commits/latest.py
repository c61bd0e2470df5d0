"""The strategy `latest`: the highest acknowledged record decides, whatever isn't acknowledged before it.

It may skip records, so it suits jobs that acknowledge in order. Rules: SmallRye's KafkaLatestCommit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from tidegate.acknowledged import Acknowledged
from tidegate.batch import Batch
from tidegate.commits.decision import Decision
from tidegate.commits.strategy import Moment
from tidegate.commits.throttled import left, within
from tidegate.ports import Committed
from tidegate.positions import TopicPartition


@dataclass(frozen=True, slots=True)
class Latest:
    """Commits each partition behind its highest acknowledged record; receipts are those of Throttled.

    `interval_ms` is `auto.commit.interval.ms`. A record may stay unacknowledged for ever.
    """

    interval_ms: int = 5_000
    moment: ClassVar = Moment.AFTER_PUBLISHING
    keeps_deadline: ClassVar = True

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
        received: datetime,
        now: datetime,
    ) -> None:
        """Nothing is ever overdue."""

    def next_run(self, since: datetime) -> datetime:
        """When the next commit is due, if the last one ended, or the delivery began, at `since`."""
        return since + timedelta(milliseconds=max(0, self.interval_ms))

    def expires(self, received: datetime) -> datetime | None:  # noqa: ARG002 (the strategy's)
        """Never."""
        return None

    def reconcile(self, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
        """What the group's positions mean for the batch; see `tidegate.commits.throttled.within`."""
        return within(batch, committed)
