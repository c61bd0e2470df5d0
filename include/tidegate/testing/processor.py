"""A Spark job in memory."""

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from tidegate.model.errors import DeliveryTimeoutError, RecordsFailedError, SparkUnavailableError
from tidegate.model.manifest import Counts, Manifest, Result, StagedFile
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import REJECTED, Failure, Rejected, rejection
from tidegate.ports import Clock
from tidegate.testing.clock import MemoryClock
from tidegate.testing.lake import MemoryLake, StagedAttempt

_UNKNOWN = Failure(REJECTED, "rejected")


class Landed(Protocol):
    """Where manifests and landed records can be read again: MemoryLanding."""

    def manifest(self, uri: str) -> Manifest:
        """The manifest that was put there."""
        ...

    def records(self, uris: Collection[str], failure: Failure) -> Iterator[Rejected]:
        """See `tidegate.ports.Landing`."""
        ...


@dataclass(frozen=True, slots=True)
class Acks:
    """A job acknowledges these offsets, and goes on for some seconds, at the end of which it is watched.

    Unless it is `watched` the engine sees them no sooner than with the next ones, or when the job is done.
    """

    offsets: Mapping[TopicPartition, Collection[int]]
    seconds: float = 5
    watched: bool = True


class MemoryProcessor:
    """The port `Processor`: each run stages an attempt that accounts for every record, unless a test says otherwise.

    `away` says why Spark can't be reached, if it can't.

    `failures` are the reasons of the next runs, which fail; `rejected`, `filtered` and `lost` rows are taken from
    those written, `lost` ones without saying so, and the rejected records are the first of those that it was handed, or
    those at the offsets that it `rejects`; `withheld` rows aren't written, and it says so; `seconds` is how long a run
    takes by the clock: longer than its timeout, and the task gives up while the driver goes on until `finish_late`.
    `acks` is what each run acknowledges first, step by step; None for a job that acknowledges everything by ending
    well. `fold` makes the new state of a manifest. `delivered` has each run's manifest.
    """

    def __init__(self, landing: Landed, lake: MemoryLake, clock: Clock | None = None) -> None:
        self.failures: list[str] = []
        self.away = ""
        self.rejected = 0
        self.rejects: Collection[int] = ()
        self.withheld: int | None = None
        self.filtered = 0
        self.lost = 0
        self.seconds = 0.0
        self.fold: Callable[[Manifest], str | None] = lambda _: None
        self.acks: list[Acks] | None = None
        self.delivered: list[Manifest] = []
        self._landing = landing
        self._lake = lake
        self._clock = clock or MemoryClock()
        self._late: list[Manifest] = []

    def check(self) -> None:
        """See `tidegate.ports.Processor`."""
        if self.away:
            raise SparkUnavailableError(self.away)

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """See `tidegate.ports.Processor`; the job is watched after each acknowledgement, and when it is done."""
        manifest = self._landing.manifest(manifest_uri)
        self.delivered.append(manifest)
        said(f"processing {manifest.records} records of {manifest.batch}")
        attempt = uuid.uuid4().hex
        acked = self._acknowledge(manifest, attempt, watch)
        self._clock.wait(self.seconds if timeout is None else min(self.seconds, timeout))
        if self.failures:
            raise RecordsFailedError(f"the job failed: {self.failures.pop(0)}")
        if timeout is not None and self.seconds > timeout:
            self._late.append(manifest)
            raise DeliveryTimeoutError(f"the job wasn't done after {timeout:.0f} s and was stopped")
        watch()
        self._stage(manifest, attempt, acked)

    def finish_late(self) -> None:
        """The drivers that outlived their tasks finish."""
        late, self._late = self._late, []
        for manifest in late:
            self._stage(manifest, uuid.uuid4().hex, None)

    def _acknowledge(
        self, manifest: Manifest, attempt: str, watch: Callable[[], None]
    ) -> tuple[StagedFile, ...] | None:
        if self.acks is None:
            return None
        left = []
        for number, acks in enumerate(self.acks):
            path = f"_acks/{number}/part-0.parquet"
            left.append(self._lake.acknowledge(manifest.staging, attempt, path, acks.offsets))
            self._clock.wait(acks.seconds)
            if acks.watched:
                watch()
        return tuple(left)

    def _stage(self, manifest: Manifest, attempt: str, acked: tuple[StagedFile, ...] | None) -> None:
        result = Result(
            batch_id=manifest.batch.id,
            delivery=manifest.delivery.token,
            attempt=attempt,
            read=manifest.records,
            filtered=self.filtered,
            files=(),
            rejected_files=(),
            state=self.fold(manifest),
            ack_files=acked,
            withheld=self.withheld,
        )
        rejected = tuple(
            replace(record, failure=rejection("rejected", record.headers)) for record in self._rejected(manifest)
        )
        written = manifest.records - len(rejected) - self.filtered - self.lost - (self.withheld or 0)
        staged = StagedAttempt(result, Counts(written=written, rejected=len(rejected)), rejected=rejected)
        self._lake.stage(manifest.staging, attempt, staged)

    def _rejected(self, manifest: Manifest) -> Iterator[Rejected]:
        handed = self._handed(manifest)
        if self.rejects:
            return (record for record in handed if record.offset in self.rejects)
        return islice(handed, self.rejected)

    def _handed(self, manifest: Manifest) -> Iterator[Rejected]:
        ranges = {r.at: r for r in manifest.batch.ranges}
        for record in self._landing.records([file.uri for file in manifest.batch.files], _UNKNOWN):
            if ranges[record.at].start <= record.offset < ranges[record.at].end:
                yield record
