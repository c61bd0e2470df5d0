"""The order, which a landing job is handed, and what it leaves: the files, and where their records were."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.model.batch import Landed, LandedFile
from tidegate.model.errors import BatchFailedError, location, message
from tidegate.model.offsets import Range, TopicPartition

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LandingRequest:
    """Which ranges one attempt is to land, and the folder that is its own; `uri` is where the order is stored."""

    uri: str
    subscription: str
    batch_id: str
    folder: str
    ranges: tuple[Range, ...]
    poll_timeout_ms: int

    def __str__(self) -> str:
        """`subscription flights, batch b12`, as every message names it."""
        return location(subscription=self.subscription, batch=self.batch_id)

    def to_json(self) -> str:
        """The document as it is stored; nothing in it is secret."""
        document = {
            "format": _FORMAT,
            "subscription": self.subscription,
            "batch_id": self.batch_id,
            "folder": self.folder,
            "ranges": [
                {"topic": r.topic, "partition": r.partition, "start": r.start, "end": r.end} for r in self.ranges
            ],
            "poll_timeout_ms": self.poll_timeout_ms,
        }
        return json.dumps(document, indent=1)


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Records of one partition that lie together in one file: how many, and the offsets of the first and the last."""

    uri: str
    at: TopicPartition
    records: int
    first: int
    last: int

    def __str__(self) -> str:
        """`flights-0 [0, 500) in part-0.parquet`, with the end behind its last record."""
        return f"{self.at} [{self.first}, {self.last + 1}) in {self.uri.rpartition('/')[2]}"


@dataclass(frozen=True, slots=True)
class JobLanding:
    """What a landing job left: how many records it says it wrote, and what the footers of its files say."""

    said: int
    files: tuple[LandedFile, ...]
    stretches: tuple[OffsetRun, ...]


def account(order: LandingRequest, left: JobLanding) -> Landed:
    """What was landed, counted in the files and held against the order.

    The job reads each range to its end or fails, so the ranges are those of the order. Raises BatchFailedError unless
    the files hold as many records as the job wrote, each within its range and none twice.
    """
    found = sum(file.records for file in left.files)
    if found != left.said:
        raise BatchFailedError(
            message(
                f"the landing job wrote {left.said} records, and {found} lie in {order.folder}",
                order,
                "the landing must be on storage that all of Spark's machines share",
            )
        )
    planned = {r.at: r for r in order.ranges}
    by_partition: dict[TopicPartition, list[OffsetRun]] = defaultdict(list)
    for stretch in left.stretches:
        within = planned.get(stretch.at)
        if within is None or stretch.first < within.start or stretch.last >= within.end:
            raise BatchFailedError(message(f"the landing job wrote {stretch}, which it wasn't ordered to land", order))
        by_partition[stretch.at].append(stretch)
    for stretches in by_partition.values():
        _check_once(order, stretches)
    records = Counter({r.at: 0 for r in order.ranges})
    for stretch in left.stretches:
        records[stretch.at] += stretch.records
    # the job doesn't tell under which leader it read
    ranges = tuple(replace(r, end_epoch=None) for r in order.ranges)
    return Landed(ranges, dict(records), tuple(file for file in left.files if file.records))


def _check_once(order: LandingRequest, stretches: list[OffsetRun]) -> None:
    in_order = sorted(stretches, key=lambda stretch: stretch.first)
    twice = next((pair for pair in pairwise(in_order) if pair[1].first <= pair[0].last), None)
    if twice:
        raise BatchFailedError(message(f"the landing job wrote records twice: {twice[0]} and {twice[1]}", order))
    crowded = next((one for one in in_order if one.records > one.last + 1 - one.first), None)
    if crowded:
        raise BatchFailedError(message(f"the landing job wrote {crowded.records} records as {crowded}", order))
