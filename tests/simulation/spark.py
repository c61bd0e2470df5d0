"""A Spark job that remembers which records it wrote, and whose drivers may outlive their tasks."""

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from simulation.facts import NONE, At, Records
from simulation.orders import Order
from tidegate.model.errors import BatchFailedError, DeliveryTimeoutError, RecordsFailedError
from tidegate.model.manifest import Counts, Manifest, Result, StagedFile
from tidegate.model.records import REJECTED, Failure, Rejected
from tidegate.testing.lake import MemoryLake, StagedAttempt
from tidegate.testing.landing import MemoryLanding

Content = tuple[tuple[str, int, int], ...]
"""The topic, partition and offset of each record, in the order in which they were written."""

_REJECTED = Failure(REJECTED, "simulated")


@dataclass(frozen=True, slots=True)
class Job:
    """A job that acknowledges: what it was handed, what of that is `left`, what it rejected, and its files so far."""

    manifest: Manifest
    attempt: str
    handed: tuple[Rejected, ...]
    left: tuple[Rejected, ...]
    rejected: tuple[Rejected, ...] = ()
    files: tuple[StagedFile, ...] = ()


class SimulatedSpark:
    """The port `Processor`: a driver reads the files that its manifest names and stages their records as one attempt.

    `order` is what the next run does, `late` the manifests of drivers that go on without their task, `contents`
    what each attempt wrote.

    With `acknowledges` a job goes step by step; see `simulation.job`. Then `began` is the manifest of
    the job that began last, `acknowledged` has the records that jobs acknowledged, by incarnation, `overtaken` those
    that lie before such a one in what its job was handed, and `acknowledged_of` those acknowledged of each batch.
    """

    def __init__(self, landing: MemoryLanding, lake: MemoryLake, *, acknowledges: bool = False) -> None:
        self.acknowledges = acknowledges
        self.order = Order.GO
        self.late: list[Manifest] = []
        self.contents: dict[str, Content] = {}
        self.jobs: dict[str, Job] = {}
        self.began: Manifest | None = None
        self.acknowledged: dict[str, Records] = {}
        self.overtaken: dict[str, Records] = {}
        self.acknowledged_of: dict[str, Records] = {}
        self._landing = landing
        self._lake = lake

    def check(self) -> None:
        """See `tidegate.ports.Processor`; it can always begin."""

    def run(
        self,
        manifest_uri: str,
        timeout: float | None,  # noqa: ARG002 (what it does takes no time, and it overruns when it is ordered to)
        said: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """See `tidegate.ports.Processor`."""
        manifest = self._landing.manifest(manifest_uri)
        said(f"processing {manifest.records} records of {manifest.batch}")
        self._check_alive(manifest)
        watch()
        for _ in range(2 if self.order is Order.TWICE else 1):
            self._write(manifest, self.order)

    def begin(self, manifest_uri: str) -> str:
        """A job that acknowledges begins; its name."""
        manifest = self.began = self._landing.manifest(manifest_uri)
        self._check_alive(manifest)
        handed = tuple(self._read(manifest))
        job = Job(manifest, uuid.uuid4().hex, handed, handed)
        self.jobs[job.attempt] = job
        return job.attempt

    def acknowledge(self, job: str) -> bool:
        """It acknowledges its first record, or as ordered; whether it goes on to do so."""
        now = self.jobs[job]
        self._check_alive(now.manifest)
        if not now.left or self.order is Order.LEAVE:
            return False
        if self.order is Order.REJECT:
            now = replace(now, left=now.left[1:], rejected=(*now.rejected, now.left[0]))
        elif self.order is Order.REJECT_LAST:
            now = replace(now, left=now.left[:-1], rejected=(*now.rejected, now.left[-1]))
        elif self.order is Order.OVERTAKE:
            now = self._acknowledged(replace(now, left=now.left[:-1]), now.left[-1])
        else:
            now = self._acknowledged(replace(now, left=now.left[1:]), now.left[0])
        self.jobs[job] = now
        return bool(now.left)

    def end(self, job: str) -> None:
        """It writes the rows of what its batch passes by what it has settled, and ends well.

        Or the cluster starts it again first. What it rejected lies beside the rows, wherever the batch ends.
        """
        now = self.jobs[job]
        self._check_alive(now.manifest)
        del self.jobs[job]
        settled = [each for each in now.handed if each not in now.left]
        passed = PASSED[now.manifest.batch.commit_strategy](now.handed, settled)
        self._stage(now.manifest, now.attempt, passed, now.rejected, now.files)
        if self.order is Order.TWICE:
            self._write(now.manifest)

    def finish(self, number: int) -> None:
        """A driver that outlived its task finishes; it fails unseen where its files are gone."""
        manifest = self.late.pop(number)
        if all(file.uri in self._landing.files for file in manifest.batch.files):
            self._write(manifest)

    def _check_alive(self, manifest: Manifest) -> None:
        if self.order is Order.OUTLIVE:
            self.late.append(manifest)
            raise DeliveryTimeoutError("the job took too long and was stopped")
        if self.order is Order.FAIL:
            raise RecordsFailedError("the job failed: simulated")

    def _acknowledged(self, job: Job, record: Rejected) -> Job:
        name, number = job.manifest.batch.receipt.incarnation, len(job.files)
        before = (each for each in job.handed if each.at == record.at and each.offset < record.offset)
        self.acknowledged[name] = self.acknowledged.get(name, NONE) | {_at(record)}
        self.overtaken[name] = self.overtaken.get(name, NONE) | set(map(_at, before))
        batch_id = job.manifest.batch.id
        self.acknowledged_of[batch_id] = self.acknowledged_of.get(batch_id, NONE) | {_at(record)}
        path, offsets = f"_acks/{number}/part-0.parquet", {record.at: (record.offset,)}
        file = self._lake.acknowledge(job.manifest.staging, job.attempt, path, offsets)
        return replace(job, files=(*job.files, file))

    def _read(self, manifest: Manifest) -> Iterator[Rejected]:
        """The records that the manifest hands to the job."""
        if gone := [file.uri for file in manifest.batch.files if file.uri not in self._landing.files]:
            raise BatchFailedError(f"the job failed: no such file: {', '.join(gone)}")
        ranges = {r.at: range(r.start, r.end) for r in manifest.batch.ranges}
        landed = self._landing.records([file.uri for file in manifest.batch.files], _REJECTED)
        return (record for record in landed if record.offset in ranges[record.at])

    def _write(self, manifest: Manifest, order: Order = Order.GO) -> None:
        read = tuple(self._read(manifest))
        rejected = {Order.REJECT: read[:1], Order.REJECT_ALL: read}.get(order, ())
        self._stage(manifest, uuid.uuid4().hex, read, rejected, None)

    def _stage(
        self,
        manifest: Manifest,
        attempt: str,
        passed: tuple[Rejected, ...],
        rejected: tuple[Rejected, ...],
        files: tuple[StagedFile, ...] | None,
    ) -> None:
        written = [each for each in passed if each not in rejected]
        self.contents[attempt] = tuple((each.at.topic, each.at.partition, each.offset) for each in written)
        token = manifest.delivery.token
        withheld = manifest.records - len(written) - len(rejected)
        result = Result(
            manifest.batch.id, token, attempt, manifest.records, 0, (), (), ack_files=files, withheld=withheld
        )
        counts = Counts(written=len(written), rejected=len(rejected))
        self._lake.stage(manifest.staging, attempt, StagedAttempt(result, counts, rejected=rejected))


def _at(record: Rejected) -> At:
    return record.at, record.offset


def _up_to_the_first_gap(handed: Sequence[Rejected], settled: Collection[Rejected]) -> tuple[Rejected, ...]:
    waiting = [each for each in handed if each not in settled]
    oldest = {at: min(each.offset for each in waiting if each.at == at) for at in {each.at for each in waiting}}
    return tuple(each for each in handed if each.at not in oldest or each.offset < oldest[each.at])


def _up_to_the_highest(handed: Sequence[Rejected], settled: Collection[Rejected]) -> tuple[Rejected, ...]:
    highest = {at: max(each.offset for each in settled if each.at == at) for at in {each.at for each in settled}}
    return tuple(each for each in handed if each.offset <= highest.get(each.at, -1))


PASSED = {"throttled": _up_to_the_first_gap, "latest": _up_to_the_highest}
"""By commit strategy, the handed records that the batch passes when these of them are settled."""
