"""The landing engine `python`: this process reads a member's ranges from Kafka and writes them into the landing."""

import logging
from dataclasses import dataclass

from tidegate.model.batch import Batch, Landed
from tidegate.model.errors import BrokerUnavailableError, UnavailableError, message
from tidegate.model.offsets import Range
from tidegate.ports import Clock, Landing, RecordSource

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadingLander:
    """Copies from a source into its landing, for `poll_timeout_ms` at most; implements ports.Lander."""

    source: RecordSource
    landing: Landing
    clock: Clock
    poll_timeout_ms: int

    def land(self, batch: Batch, member: int) -> Landed:
        """See ports.Lander.

        Raises UnavailableError, naming the position, if nothing moved though the broker answers.
        """
        share = batch.share(member)
        deadline = self.clock.monotonic() + self.poll_timeout_ms / 1000
        with (
            self.landing.writer(batch.subscription, batch.id, member) as writer,
            self.source.read(share, deadline) as reader,
        ):
            for chunk in reader:
                writer.write(chunk)
            progress = reader.progress()
        if all(read.is_empty for read, _ in progress):
            self._explain_standstill(batch, share)
        return Landed(
            ranges=tuple(read for read, _ in progress),
            records={read.at: records for read, records in progress},
            files=writer.files(),
        )

    def _explain_standstill(self, batch: Batch, share: tuple[Range, ...]) -> None:
        """Nothing moved: fine while the broker is away, and an error that names the position while it answers."""
        try:
            self.source.watermarks([r.at for r in share])
        except BrokerUnavailableError as away:
            log.warning("the broker went away before anything was read: %s (%s)", away, batch)
            return
        raise UnavailableError(
            message(
                f"nothing of {', '.join(map(str, share))} could be read within the poll timeout "
                f"({self.poll_timeout_ms} ms) though the broker answers: nothing was landed",
                batch,
                "raise poll-timeout.ms, or look for an unreadable record at these positions",
            )
        )
