"""What failed of a subscription's batches: why, the records that the reasons name, and one of them as it was landed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.landing.sample import LandedRecord, landed_record
from tidegate.ledger.batch_record import BatchRecord
from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError
from tidegate.model.offsets import TopicPartition
from tidegate.parquet.known_stores import use_connections
from tidegate_airflow.connections import DatabaseConnections

_TOPIC, _PARTITION, _OFFSET = r"([A-Za-z0-9._-]{1,249})", r"(\d{1,9})", r"(\d{1,18})"
_PLACES_IN_WORDS = (
    re.compile(f"{_TOPIC}-{_PARTITION} at {_OFFSET}"),
    re.compile(f"topic {_TOPIC}, partition {_PARTITION}, offset {_OFFSET}"),
)
"""How jobs name a record, and how `tidegate.model.errors.location` does."""
_PLACES = 5
_DELIVERIES = 5
_REASON = 4_000  # characters


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed; `places` are the records that the reason names, topic, partition and offset."""

    delivery: int
    reason: str
    places: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the records that failed, or where none is named, the batch's first; else why it can't be shown."""

    record: LandedRecord | None
    is_named: bool
    problem: str = ""


def failures(record: BatchRecord) -> tuple[Failure, ...]:
    """The newest failed deliveries of a batch, the newest first."""
    failed = [each for each in reversed(record.deliveries) if each.reason][:_DELIVERIES]
    return tuple(
        Failure(each.number, (each.reason or "")[:_REASON], _places(each.reason or "", record.batch)) for each in failed
    )


def sample(batch: Batch, failed: Sequence[Failure]) -> Sample | None:
    """A record to look at, out of the landing; None for a batch that has landed nothing."""
    if not batch.files:
        return None
    use_connections(DatabaseConnections())
    named = next((place for each in failed for place in each.places), None)
    try:
        found = landed_record([file.uri for file in batch.files], named)
    except TidegateError as error:
        return Sample(None, named is not None, str(error).partition("\n")[0])
    return Sample(found, named is not None, "" if found else "its landed files are gone, or don't have it")


def _places(reason: str, batch: Batch) -> tuple[tuple[TopicPartition, int], ...]:
    """The records of this batch that a reason names; a text may say what it likes."""
    within = {r.at: r for r in batch.ranges}
    found = sorted((each for words in _PLACES_IN_WORDS for each in words.finditer(reason)), key=re.Match.start)
    told = ((TopicPartition(topic, int(number)), int(at)) for topic, number, at in map(re.Match.groups, found))
    ours = [(at, offset) for at, offset in told if at in within and within[at].start <= offset < within[at].end]
    return tuple(dict.fromkeys(ours))[:_PLACES]
