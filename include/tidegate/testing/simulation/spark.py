"""A Spark job that remembers which records it wrote, and whose drivers may outlive their tasks."""

import uuid
from collections.abc import Callable

from tidegate.errors import BatchFailedError, OverrunError
from tidegate.manifest import Counts, Manifest, Result
from tidegate.testing.lake import MemoryLake, StagedAttempt
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.simulation.orders import Order

Content = tuple[tuple[str, int, int], ...]
"""The topic, partition and offset of each record, in the order in which they were written."""


class SimulatedSpark:
    """The port `Processor`: a driver reads the files that its manifest names and stages their records as one attempt.

    `order` is what the next run does, `late` the manifests of drivers that go on without their task, `contents`
    what each attempt holds.
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
        for _ in range(2 if self.order is Order.TWICE else 1):
            self._write(manifest)

    def finish(self, number: int) -> None:
        """A driver that outlived its task finishes; it fails unseen where its files are gone."""
        manifest = self.late.pop(number)
        if all(file.uri in self._landing.files for file in manifest.batch.files):
            self._write(manifest)

    def _write(self, manifest: Manifest) -> None:
        if gone := [file.uri for file in manifest.batch.files if file.uri not in self._landing.files]:
            raise BatchFailedError(f"{manifest.batch}: the job failed: no such file: {', '.join(gone)}")
        attempt = uuid.uuid4().hex
        self.contents[attempt] = tuple(
            (read.topic, read.partition, read.offset)
            for file in manifest.batch.files
            for read in self._landing.files[file.uri]
        )
        read = len(self.contents[attempt])
        result = Result(manifest.batch.id, manifest.delivery.token, attempt, read, 0, (), ())
        self._lake.stage(manifest.staging, attempt, StagedAttempt(result, Counts(written=read, rejected=0)))
