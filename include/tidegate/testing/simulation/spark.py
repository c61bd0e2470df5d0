"""A Spark job that remembers which records it wrote, and whose drivers may outlive their tasks."""

import uuid
from collections.abc import Callable

from tidegate.errors import BatchFailedError, OverrunError
from tidegate.failures.dead_letters import REJECTED
from tidegate.manifest import Counts, Manifest, Result
from tidegate.records import Failure
from tidegate.testing.lake import MemoryLake, StagedAttempt
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.simulation.orders import Order

Content = tuple[tuple[str, int, int], ...]
"""The topic, partition and offset of each record, in the order in which they were written."""


class SimulatedSpark:
    """The port `Processor`: a driver reads the files that its manifest names and stages their records as one attempt.

    `order` is what the next run does, `late` the manifests of drivers that go on without their task, `contents`
    what each attempt wrote.
    """

    def __init__(self, landing: MemoryLanding, lake: MemoryLake) -> None:
        self.order = Order.GO
        self.late: list[Manifest] = []
        self.contents: dict[str, Content] = {}
        self._landing = landing
        self._lake = lake

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """See `tidegate.ports.Processor`."""
        manifest = self._landing.manifest(manifest_uri)
        said(f"processing {manifest.records} records of {manifest.batch}")
        if self.order is Order.OUTLIVE:
            self.late.append(manifest)
            raise OverrunError(f"{manifest.batch}: the job wasn't done after {timeout} s and was stopped")
        watch()
        if self.order is Order.FAIL:
            raise BatchFailedError(f"{manifest.batch}: the job failed: simulated")
        for _ in range(2 if self.order is Order.TWICE else 1):
            self._write(manifest, self.order)

    def finish(self, number: int) -> None:
        """A driver that outlived its task finishes; it fails unseen where its files are gone."""
        manifest = self.late.pop(number)
        if all(file.uri in self._landing.files for file in manifest.batch.files):
            self._write(manifest)

    def _write(self, manifest: Manifest, order: Order = Order.GO) -> None:
        if gone := [file.uri for file in manifest.batch.files if file.uri not in self._landing.files]:
            raise BatchFailedError(f"{manifest.batch}: the job failed: no such file: {', '.join(gone)}")
        attempt = uuid.uuid4().hex
        uris = [file.uri for file in manifest.batch.files]
        read = tuple(self._landing.records(uris, Failure(REJECTED, "simulated")))
        rejected = {Order.REJECT: read[:1], Order.REJECT_ALL: read}.get(order, ())
        written = read[len(rejected) :]
        self.contents[attempt] = tuple((each.at.topic, each.at.partition, each.offset) for each in written)
        result = Result(manifest.batch.id, manifest.delivery.token, attempt, len(read), 0, (), ())
        counts = Counts(written=len(written), rejected=len(rejected))
        self._lake.stage(manifest.staging, attempt, StagedAttempt(result, counts, rejected=rejected))
