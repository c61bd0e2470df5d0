"""The manifest, which the Spark job is handed, and the result, which it leaves: JSON documents, format 1."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.model.batch import Batch, Delivery, LandedFile
from tidegate.model.change_feed import Merge
from tidegate.model.decoding import Decoding
from tidegate.model.errors import BatchFailedError, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.row_layout import AS_RETURNED, RowLayout, row_layout

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one delivery of a batch is to process, and where it may write; once published, what it made.

    Without `decoding` keys and values are bytes. `state`, JSON text, is what the last committed batch left for the
    transform, `new_state` what a published batch made of it; None where there is none, or nothing new. `output_files`
    are those of a published batch, rejected records among them, as they were audited. With `rescues` what doesn't fit
    into `table_schema`, a table's schema in Spark's own JSON, is kept in a column; None where there is no table yet.
    With `merge` the rows are changes of the table's; once they are published, `replaced_files` are the URIs of the
    files of the table that went in the same commit.
    `generation` counts how often the batch was made: 1, and one more for each time that it is reprocessed.
    Files of rows are to have about `target_file_bytes`, None for any.
    """

    batch: Batch
    delivery: Delivery
    transform: str | None
    row_accounting: str
    staging: str
    decoding: Decoding | None = None
    state: str | None = None
    new_state: str | None = None
    output_files: "tuple[StagedFile, ...] | None" = None
    rescues: bool = False
    table_schema: str | None = None
    merge: Merge | None = None
    replaced_files: tuple[str, ...] = ()
    generation: int = 1
    target_file_bytes: int | None = None

    @property
    def layout(self) -> RowLayout:
        """How the job is to lay out the rows."""
        return row_layout(self.batch.output, rescues=self.rescues)

    @property
    def records(self) -> int:
        """The number of records that the job must account for."""
        return self.batch.landed_records

    def to_json(self) -> str:
        """The document as it is stored."""
        batch = self.batch
        document: dict[str, Any] = {
            "format": _FORMAT,
            "subscription": batch.subscription,
            "group": batch.group,
            "batch_id": batch.id,
            "receipt": str(batch.receipt),
            "delivery": {"number": self.delivery.number, "token": self.delivery.token},
            "records": self.records,
            "rows": batch.rows,
            "rejected": batch.rejected,
            "filtered": batch.filtered,
            "ranges": ranges_to_json(batch),
            "files": [
                {"uri": f.uri, "records": f.records, "bytes": f.bytes, "checksum": f.checksum} for f in batch.files
            ],
            "transform": self.transform,
            "output": batch.output,
            "partition_by": list(batch.partition_by),
            "row_accounting": self.row_accounting,
            "commit_strategy": batch.commit_strategy,
            "progress": batch.commit_policy.progress.value,
            "keeps_state": batch.commit_policy.keeps_state,
            "staging": self.staging,
        }
        if self.layout != AS_RETURNED:
            schema = None if self.table_schema is None else json.loads(self.table_schema)
            document["layout"] = self.layout.to_json() | {"table_schema": schema}
        if self.merge is not None:
            document["change_feed"] = self.merge.to_json()
        if self.replaced_files:
            document["replaced_files"] = list(self.replaced_files)
        if self.generation > 1:
            document["generation"] = self.generation
        if self.target_file_bytes is not None:
            document["target_file_bytes"] = self.target_file_bytes
        if self.decoding is not None:
            document["deserialization"] = self.decoding.to_json()
        if self.state is not None:
            document["state"] = json.loads(self.state)
        if self.new_state is not None:
            document["new_state"] = json.loads(self.new_state)
        if self.output_files is not None:
            document["output_files"] = [asdict(file) for file in self.output_files]
        return json.dumps(document, indent=1)


def _text(state: Any) -> str | None:
    """A state as JSON text; null is no state."""
    return None if state is None else json.dumps(state)


def ranges_to_json(batch: Batch) -> list[dict[str, Any]]:
    """The batch's ranges as JSON objects with topic, partition, start, end and number of records."""
    return [
        {
            "topic": r.topic,
            "partition": r.partition,
            "start": r.start,
            "end": r.end,
            "records": batch.records.get(r.at, 0),
        }
        for r in batch.ranges
    ]


@dataclass(frozen=True, slots=True)
class Published:
    """What the lake itself says of a published batch, from the `_manifest.json` inside.

    `state`, JSON text, is the new one that is to be stored with the batch's positions; None to keep the old.
    """

    batch_id: str
    ranges: tuple[Range, ...]
    records: dict[TopicPartition, int]
    files: tuple[LandedFile, ...]
    rows: int | None
    rejected: int | None
    state: str | None = None
    filtered: int | None = None
    generation: int = 1

    @classmethod
    def from_json(cls, text: str) -> "Published":
        """Read a published manifest; ValueError where it is damaged."""
        try:
            document = json.loads(text)
            ranges = document["ranges"]
            return cls(
                batch_id=document["batch_id"],
                ranges=tuple(Range(r["topic"], r["partition"], r["start"], r["end"]) for r in ranges),
                records={TopicPartition(r["topic"], r["partition"]): r["records"] for r in ranges},
                files=tuple(
                    LandedFile(f["uri"], f["records"], f["bytes"], f.get("checksum")) for f in document["files"]
                ),
                rows=document.get("rows"),
                rejected=document.get("rejected"),
                state=_text(document.get("new_state")),
                filtered=document.get("filtered"),
                generation=document.get("generation", 1),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no published manifest: {error!r}") from error


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that the Spark job wrote; its path is relative to the attempt's folder.

    Its checksum and its number of rows are noted when it is audited: what a job says of its files has neither.
    """

    path: str
    bytes: int
    checksum: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What the Spark job says it did; the numbers of written and rejected rows are not its to say.

    `state`, JSON text, is what the transform would have kept for the next batch; None for what there was.
    `ack_files` name the records that it acknowledges; None: all that it didn't reject. `withheld` rows and rejected
    records aren't among the files, because the batch ends before them; None if the job can't tell which those are.
    Of a change feed, `rewritten_files` have rows that were in the table already, in files that `replaced_files` name by
    their URIs, and `tombstone_files` the deleted keys.
    """

    batch_id: str
    delivery: str
    attempt: str
    read: int
    filtered: int
    files: tuple[StagedFile, ...]
    rejected_files: tuple[StagedFile, ...]
    state: str | None = None
    ack_files: tuple[StagedFile, ...] | None = None
    withheld: int | None = None
    rewritten_files: tuple[StagedFile, ...] = ()
    tombstone_files: tuple[StagedFile, ...] = ()
    replaced_files: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> "Result":
        """Read a result; BatchFailedError where it isn't one."""
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT:
                raise BatchFailedError(f"the job's result has format {document['format']}; this is format {_FORMAT}")
            return cls(
                batch_id=document["batch_id"],
                delivery=document["delivery"],
                attempt=document["attempt"],
                read=_count(document["read"]),
                filtered=_count(document["filtered"]),
                files=_files(document["files"]),
                rejected_files=_files(document["rejected_files"]),
                ack_files=None if document.get("ack_files") is None else _files(document["ack_files"]),
                withheld=None if document.get("withheld") is None else _count(document["withheld"]),
                state=_text(document.get("state")),
                rewritten_files=_files(document.get("rewritten_files", ())),
                tombstone_files=_files(document.get("tombstone_files", ())),
                replaced_files=tuple(document.get("replaced_files", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BatchFailedError(
                f"the job's result can't be read ({error!r}); use tidegate_spark.batch_io to write it"
            ) from error


def _files(entries: Iterable[dict[str, Any]]) -> tuple[StagedFile, ...]:
    return tuple(StagedFile(entry["path"], entry["bytes"]) for entry in entries)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} isn't a number of records")
    return value


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that the job rejected, and why."""

    topic: str
    partition: int
    offset: int
    reason: str | None

    def __str__(self) -> str:
        """Where it lies, and the reason."""
        return f"{self.topic}-{self.partition} at {self.offset}: {self.reason or 'no reason given'}"


@dataclass(frozen=True, slots=True)
class Rejections:
    """How many records the job itself rejected, the first of them, and how many it couldn't decode."""

    number: int
    first: tuple[Rejection, ...] = ()
    undecodable: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows as the engine counted them in the Parquet footers of an attempt.

    `seal` is the checksum of the list of its files, which has theirs; None for a lake that notes none.
    """

    written: int
    rejected: int
    seal: str | None = None


def _unaccounted(surplus: int) -> str:
    """What the transform has to do about records that aren't accounted for, or are more than once."""
    wanted = "each record once, as a row or else" if surplus > 0 else "what it drops"
    return f"{wanted} as rejected or filtered"


def audit(manifest: Manifest, result: Result, counts: Counts) -> None:
    """Hold a result against the manifest that it claims to have processed.

    Raises BatchFailedError unless it names this batch and delivery, read every landed record, and every record
    read was written, rejected or filtered. With `row-accounting: free` the transform may explode or aggregate.
    """
    if (result.batch_id, result.delivery) != (manifest.batch.id, manifest.delivery.token):
        raise BatchFailedError(
            message(
                f"the job's result is of batch {result.batch_id}, delivery {result.delivery}, and not of delivery "
                f"{manifest.delivery.token}: nothing of it is published",
                manifest.batch,
            )
        )
    if result.state is not None and not manifest.batch.commit_policy.keeps_state:
        raise BatchFailedError(
            message(
                "the transform gave a state, which only commit-strategy: checkpoint keeps, and the batch's is "
                f"{manifest.batch.commit_strategy}: nothing is published",
                manifest.batch,
                "give none, or change the strategy",
            )
        )
    if result.read != manifest.records:
        raise BatchFailedError(
            message(
                f"{manifest.records} records landed and the job read {result.read}",
                manifest.batch,
                "look for landing files that were changed or removed",
            )
        )
    withheld = result.withheld or 0
    accounted = counts.written + counts.rejected + result.filtered + withheld
    if manifest.row_accounting == "strict" and accounted != result.read:
        raise BatchFailedError(
            message(
                f"the job read {result.read} records and accounts for {accounted}: {counts.written} written, "
                f"{counts.rejected} rejected, {result.filtered} filtered"
                f"{f', {withheld} withheld' if withheld else ''}",
                manifest.batch,
                f"have the transform return {_unaccounted(accounted - result.read)}, or set row-accounting: free",
            )
        )
