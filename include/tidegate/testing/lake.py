"""A lake in memory."""

import threading
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidegate.lake.staging import abandoned_batch, staged_batch, staging_name
from tidegate.model.acknowledged import TakesOffsets
from tidegate.model.change_feed import MergeTarget
from tidegate.model.errors import (
    BatchFailedError,
    CorruptFileError,
    StaleError,
    UnavailableError,
    WrongDefinitionError,
    message,
)
from tidegate.model.manifest import Counts, Manifest, Published, Rejection, Rejections, Result, StagedFile
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import UNDECODABLE, Rejected

_REJECTED = "_rejected"
_STAGING = "_staging"
_ABANDONED = "_abandoned"


@dataclass(frozen=True, slots=True)
class StagedAttempt:
    """What one driver left: its result (None: it isn't done) and the rows in its files.

    `problem` spoils the files before they are sealed, `damage` what was sealed.
    """

    result: Result | None
    counts: Counts
    problem: str | None = None
    damage: str | None = None
    rejected: tuple[Rejected, ...] = ()

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """The rejected records that could be decoded, in order of topic, partition and offset."""
        by_the_job = (record for record in self.rejected if record.failure.kind != UNDECODABLE)
        return tuple(
            Rejection(record.at.topic, record.at.partition, record.offset, record.failure.reason)
            for record in sorted(by_the_job, key=lambda record: (record.at, record.offset))
        )


@dataclass(frozen=True, slots=True)
class PublishedAttempt:
    """A published batch: its manifest, and what was staged."""

    manifest: Manifest
    attempt: StagedAttempt


class MemoryStaged:
    """The port `StagedOutput` for one process, its threads included, and the hands of a Spark job on it.

    `staged` is by staging URI and attempt; `acks` has the acknowledged offsets in each file of them; `withdrawn` are
    the staging URIs whose attempts count no more.
    """

    def __init__(self) -> None:
        self.staged: dict[str, dict[str, StagedAttempt]] = defaultdict(dict)
        self.acks: dict[str, Mapping[TopicPartition, Collection[int]]] = {}
        self.withdrawn: set[str] = set()
        self._lock = threading.RLock()

    def make_folder(self, staging: str) -> None:
        """See `tidegate.ports.StagedOutput`; a folder without an attempt is none."""

    def stage(self, staging: str, attempt: str, staged: StagedAttempt) -> None:
        """A driver leaves an attempt below a staging folder, which it makes if need be."""
        with self._lock:
            self.staged[staging][attempt] = staged

    def acknowledge(
        self, staging: str, attempt: str, path: str, offsets: Mapping[TopicPartition, Collection[int]]
    ) -> StagedFile:
        """A driver leaves a file of acknowledgements, at a path below its attempt's folder."""
        with self._lock:
            self.staged[staging]  # the folder is there from now on
            self.acks[f"{staging}/{attempt}/{path}"] = {at: tuple(ones) for at, ones in offsets.items()}
        return StagedFile(path, sum(map(len, offsets.values())))

    def results(self, staging: str) -> tuple[Result, ...]:
        """See `tidegate.ports.StagedOutput`."""
        with self._lock:
            found = [staged.result for _, staged in sorted(self.staged.get(staging, {}).items())]
        return tuple(result for result in found if result is not None)

    def seal(self, staging: str, result: Result) -> Counts:
        """See `tidegate.ports.StagedOutput`."""
        staged = self.staged.get(staging, {}).get(result.attempt)
        problem = f"there is no attempt {result.attempt}" if staged is None else staged.problem
        if staged is None or problem:
            raise BatchFailedError(f"the files below {staging} aren't those that their result names: {problem}")
        return replace(staged.counts, seal="sealed")

    def rejections(self, staging: str, result: Result, most: int) -> Rejections:
        """See `tidegate.ports.StagedOutput`."""
        staged = self.staged.get(staging, {}).get(result.attempt)
        if staged is None:
            raise BatchFailedError(f"the rejected records of attempt {result.attempt} below {staging} are gone")
        found = staged.rejections
        return Rejections(len(found), found[:most])

    def ack_files(self, staging: str) -> tuple[str, ...]:
        """See `tidegate.ports.StagedOutput`."""
        with self._lock:
            return tuple(sorted(file for file in self.acks if file.startswith(f"{staging}/")))

    def settled_files(self, staging: str, result: Result) -> tuple[str, ...]:
        """See `tidegate.ports.StagedOutput`; what an attempt rejected is one file."""
        attempt = f"{staging}/{result.attempt}"
        for file in result.ack_files or ():
            if sum(map(len, self.acks.get(f"{attempt}/{file.path}", {}).values())) != file.bytes:
                raise BatchFailedError(f"the acknowledgements {attempt}/{file.path} aren't those that were left")
        named = (f"{attempt}/{file.path}" for file in result.ack_files or ())
        return (*named, f"{attempt}/{_REJECTED}")

    def read_acks(self, file: str, into: Mapping[TopicPartition, TakesOffsets]) -> None:
        """See `tidegate.ports.StagedOutput`."""
        with self._lock:
            offsets = self._rejected_in(file) if file.endswith(f"/{_REJECTED}") else self.acks.get(file)
        if offsets is None:
            raise UnavailableError(f"{file} can't be read: it is gone")
        for at, ones in offsets.items():
            if at not in into:
                raise BatchFailedError(f"{file} acknowledges records of {at}, and the batch has none of that partition")
            into[at].add(np.array(sorted(ones), np.int64))

    def has_attempt(self, staging: str, attempt: str) -> bool:
        """See `tidegate.ports.StagedOutput`."""
        return attempt in self.staged.get(staging, {}) and staging not in self.withdrawn

    def verified(self, manifest: Manifest, attempt: str) -> Manifest:
        """See `tidegate.ports.StagedOutput`."""
        with self._lock:
            staged = self.staged.get(manifest.staging, {}).get(attempt)
        if staged is None:
            raise StaleError(message(f"the staged attempt {attempt} is gone: nothing is published", manifest.batch))
        if manifest.batch.seal is None:
            return manifest
        if staged.damage is not None:
            raise CorruptFileError(staged.damage)
        return replace(manifest, output_files=staged.result.files if staged.result else ())

    def rejected_by(self, staging: str, attempt: str) -> Iterator[Rejected]:
        """See `tidegate.ports.StagedOutput`."""
        staged = self.staged.get(staging, {}).get(attempt)
        return iter(staged.rejected if staged else ())

    def withdraw(self, staging: str) -> None:
        """See `tidegate.ports.StagedOutput`."""
        with self._lock:
            self.withdrawn.add(staging)

    def remove_folders(self, folders: Collection[str]) -> Collection[str]:
        """See `tidegate.ports.StagedOutput`."""
        with self._lock:
            for staging in [uri for uri in self.staged if uri in folders]:
                del self.staged[staging]
            for folder in folders:
                self._forget_acks(f"{folder}/")
        return ()

    def _forget_acks(self, prefix: str) -> None:
        self.acks = {file: offsets for file, offsets in self.acks.items() if not file.startswith(prefix)}

    def _rejected_in(self, file: str) -> dict[TopicPartition, list[int]] | None:
        staging, attempt, _ = file.rsplit("/", 2)
        staged = self.staged.get(staging, {}).get(attempt)
        if staged is None:
            return None
        offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        for record in staged.rejected:
            offsets[record.at].append(record.offset)
        return offsets


class MemoryLake(MemoryStaged):
    """The port `Lake`, whose batches are published at once.

    `published_attempts` are by output and batch id; `abandoned` are the names of the staging folders that were set
    aside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.published_attempts: dict[tuple[str, str], PublishedAttempt] = {}
        self.abandoned: list[str] = []
        self.unmounted: set[str] = set()
        self.written: set[str] = set()
        """The outputs that deliveries were staged in."""
        self.carried_over: dict[tuple[str, str], Receipt] = {}

    def staging_of(self, output: str, batch_id: str, token: str, generation: int = 1) -> str:
        """See `tidegate.ports.Lake`."""
        return f"{output}/{_STAGING}/{staging_name(batch_id, token, generation)}"

    def table_schema(self, output: str) -> str | None:  # noqa: ARG002 (each batch has a folder of its own)
        """See `tidegate.ports.Lake`."""
        return None

    def require_writable(self, output: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.Lake`; each batch has a folder of its own, partitioned as it likes."""

    def merge_target(self, output: str, of: Receipt) -> MergeTarget:  # noqa: ARG002 (none has one)
        """See `tidegate.ports.Lake`; the files of a batch are never replaced."""
        raise WrongDefinitionError(
            message("keys are for tables, and files of Parquet stay as they are", output, "remove them")
        )

    def prepare(self, manifest: Manifest) -> None:
        """See `tidegate.ports.Lake`."""
        self.written.add(manifest.batch.output)
        self.make_folder(manifest.staging)

    def published(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`."""
        found = self.published_attempts.get((output, of.batch_id or ""))
        return None if found is None else Published.from_json(found.manifest.to_json())

    def published_ids(self, output: str, batch_ids: Collection[str]) -> frozenset[str]:
        """See `tidegate.ports.Lake`."""
        return frozenset(batch_id for batch_id in batch_ids if (output, batch_id) in self.published_attempts)

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """See `tidegate.ports.Lake`."""
        found = self.published_attempts.get((output, of.batch_id or ""))
        return iter(found.attempt.rejected if found else ())

    def is_passed(self, output: str, of: Receipt) -> bool:  # noqa: ARG002 (folders know no order)
        """See `tidegate.ports.Lake`."""
        return False

    def has_forgotten(self, output: str, of: Receipt) -> bool:  # noqa: ARG002 (folders may be taken away)
        """See `tidegate.ports.Lake`."""
        return False

    def is_absent(self, output: str) -> bool:
        """See `tidegate.ports.Lake`; `unmounted` has outputs that can't be seen for now."""
        written = self.written.union(at for at, _ in self.published_attempts)
        return output in self.unmounted or output not in written

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`."""
        at = (manifest.batch.output, manifest.batch.id)
        with self._lock:
            verified = self.verified(manifest, attempt)
            if at in self.published_attempts:
                raise StaleError(
                    message("the batch is published already", manifest.batch, "the next run finds out by whom")
                )
            staged = self.staged[manifest.staging].pop(attempt)
            self._forget_acks(f"{manifest.staging}/{attempt}/")
            self.published_attempts[at] = PublishedAttempt(verified, staged)

    def replaces_at_once(self, output: str) -> bool:  # noqa: ARG002 (all are alike)
        """See `tidegate.ports.Lake`."""
        return True

    def replacement(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`."""
        found = self.published(output, of)
        return None if found is None or found.generation == 1 else found

    def has_generation(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return self.replacement(output, of) is not None

    def replace(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`."""
        batch = manifest.batch
        with self._lock:
            self.verified(manifest, attempt)
            before = self.published_attempts.pop((batch.output, batch.id), None)
            if before is not None and before.manifest.generation >= manifest.generation:
                self.published_attempts[batch.output, batch.id] = before
                raise StaleError(message("this generation is in the output already", batch))
            self.publish(manifest, attempt)

    def remove_superseded(self, output: str, of: Receipt, folders: Collection[str]) -> None:  # noqa: ARG002 (of none of them)
        """See `tidegate.ports.Lake`."""
        self.remove_folders(folders)

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """See `tidegate.ports.Lake`."""
        found: dict[str, set[str]] = defaultdict(set)
        with self._lock:
            for uri in self.staged:
                if uri.startswith(f"{output}/{_STAGING}/") and (batch_id := staged_batch(uri.rpartition("/")[2])):
                    found[batch_id].add(uri)
            for name in self.abandoned:
                if batch_id := abandoned_batch(name):
                    found[batch_id].add(f"{output}/{_ABANDONED}/{name}")
        return {batch_id: frozenset(uris) for batch_id, uris in found.items()}

    def set_aside(self, output: str, of: Receipt) -> None:
        """See `tidegate.ports.Lake`."""
        with self._lock:
            for staging in self._staging_of(output, of.batch_id):
                name = f"{staging.rpartition('/')[2]}-{uuid.uuid4().hex[:8]}"
                del self.staged[staging]
                self._move_acks(staging, f"{output}/{_ABANDONED}/{name}")
                self.abandoned.append(name)

    def carry_over(self, output: str, given_up: Receipt, first: Receipt) -> None:
        """See `tidegate.ports.Lake`; it takes no changes, and only notes it."""
        with self._lock:
            self.carried_over[output, first.incarnation] = given_up

    def remove_staged(self, output: str, folders: Collection[str]) -> None:  # noqa: ARG002 (each is named whole)
        """See `tidegate.ports.Lake`."""
        with self._lock:
            self.remove_folders(folders)
            aside = {uri.rpartition("/")[2] for uri in folders if f"/{_ABANDONED}/" in uri}
            self.abandoned = [name for name in self.abandoned if name not in aside]

    def _move_acks(self, folder: str, to: str) -> None:
        moved = {file: f"{to}{file.removeprefix(folder)}" for file in self.acks if file.startswith(f"{folder}/")}
        self.acks = {moved.get(file, file): offsets for file, offsets in self.acks.items()}

    def _staging_of(self, output: str, batch_id: str | None) -> list[str]:
        return [
            staging
            for staging in self.staged
            if staging.startswith(f"{output}/{_STAGING}/") and staged_batch(staging.rpartition("/")[2]) == batch_id
        ]
