"""The two documents of format 1: the manifest that a job is handed, and the result that it leaves."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate_spark.change_feed import ChangeFeed
from tidegate_spark.deserializers.decode import Deserialization
from tidegate_spark.row_layout import AS_RETURNED, RowLayout

FORMAT = 1

_COMMIT_STRATEGY = "after-processing"  # of manifests that don't name one
_WHOLE_BATCH = "whole-batch"


class ManifestError(Exception):
    """The manifest can't be followed: give this job one of its own version. Trying again won't help."""


@dataclass(frozen=True)
class Range:
    """The offsets `[start, end)` of one partition, and how many records were landed from them."""

    topic: str
    partition: int
    start: int
    end: int
    records: int


@dataclass(frozen=True)
class LandedFile:
    """One Parquet file of the landing: its URI, its records, its bytes and, unless it is old, their checksum."""

    uri: str
    records: int
    bytes: int
    checksum: str | None = None


@dataclass(frozen=True)
class Delivery:
    """One attempt to process the batch: its number, from 1, and the token that its staging is named by."""

    number: int
    token: str


@dataclass(frozen=True)
class Manifest:
    """What a job is handed: which records, through which transform, to where.

    The records are those of `files` that lie within `ranges`; `records` is their number, which is less than the
    files' own where the group has gone on within the batch. `progress` is what may be committed while the job runs:
    `whole-batch`, which is nothing, `contiguous-acks` or `highest-ack`. `keeps_state` is whether the job may leave a
    state; `state` is what the last one left, None before. `layout` is how rows lie in the output's files, of about
    `target_file_bytes` each, None for any; with a `change_feed` they are changes of what is there.
    """

    subscription: str
    group: str
    batch_id: str
    receipt: str
    delivery: Delivery
    records: int
    ranges: tuple[Range, ...]
    files: tuple[LandedFile, ...]
    transform: str | None
    output: str
    partition_by: tuple[str, ...]
    row_accounting: str
    staging: str
    deserialization: Deserialization | None = None
    commit_strategy: str = _COMMIT_STRATEGY
    progress: str = _WHOLE_BATCH
    keeps_state: bool = False
    state: Any = None
    layout: RowLayout = AS_RETURNED
    change_feed: ChangeFeed | None = None
    target_file_bytes: int | None = None

    @property
    def commits_acknowledged(self) -> bool:
        """Whether what the job acknowledges is committed while it runs."""
        return self.progress != _WHOLE_BATCH


@dataclass(frozen=True, order=True)
class WrittenFile:
    """One file that the job wrote: its path below the attempt's folder, and its bytes."""

    path: str
    bytes: int


@dataclass(frozen=True)
class Result:
    """What the job leaves, last of all: how many records it read, and every file that it wrote.

    Written and rejected rows aren't counted here: the engine counts them in the files themselves. `ack_files` name
    what was acknowledged, None if everything was; `withheld` is how many rows and rejected records aren't written
    because the batch ends before them by that, None where rows can't be told apart. `state` is a checkpoint's new one,
    None if there is none. Of a change feed `rewritten_files` have rows that were in the table, in files that
    `replaced_files` name by their URIs, and `tombstone_files` the deleted keys.
    """

    batch_id: str
    delivery: str
    attempt: str
    read: int
    filtered: int
    files: tuple[WrittenFile, ...]
    rejected_files: tuple[WrittenFile, ...]
    application: str
    ack_files: tuple[WrittenFile, ...] | None = None
    withheld: int | None = None
    state: Any = None
    rewritten_files: tuple[WrittenFile, ...] = ()
    tombstone_files: tuple[WrittenFile, ...] = ()
    replaced_files: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The document as it is stored, in one line."""
        but_state = asdict(replace(self, state=None))  # asdict copies, which fails for a state that is deeply nested
        return json.dumps({"format": FORMAT, **but_state, "state": self.state})


def parse_manifest(text: str, uri: str) -> Manifest:
    """The manifest that `text`, found at `uri`, holds. Raises ManifestError naming what is wrong with it."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ManifestError(f"{uri} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ManifestError(f"{uri} is not a manifest of format {FORMAT}, the one that this job follows")
    try:
        manifest = _manifest(found)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"{uri}: a field is missing or misspelt: {error}") from None
    if not manifest.batch_id.startswith("b"):
        raise ManifestError(f"{uri}: batch_id {manifest.batch_id!r} must begin with b, or Spark may infer a number")
    return manifest


def _manifest(found: Mapping[str, Any]) -> Manifest:
    return Manifest(
        subscription=found["subscription"],
        group=found["group"],
        batch_id=found["batch_id"],
        receipt=found["receipt"],
        delivery=Delivery(number=found["delivery"]["number"], token=found["delivery"]["token"]),
        records=found["records"],
        ranges=tuple(Range(**one) for one in found["ranges"]),
        files=tuple(LandedFile(**one) for one in found["files"]),
        transform=found["transform"],
        output=found["output"],
        partition_by=tuple(found["partition_by"]),
        row_accounting=found["row_accounting"],
        staging=found["staging"],
        deserialization=Deserialization.of(found["deserialization"]) if found.get("deserialization") else None,
        commit_strategy=found.get("commit_strategy", _COMMIT_STRATEGY),
        progress=found.get("progress", _WHOLE_BATCH),
        keeps_state=found.get("keeps_state", False),
        state=found.get("state"),
        layout=RowLayout.of(found["layout"]) if "layout" in found else AS_RETURNED,
        change_feed=ChangeFeed.of(found["change_feed"], found["subscription"]) if found.get("change_feed") else None,
        target_file_bytes=found.get("target_file_bytes"),
    )
