"""A landing by a job: its orders beside the manifests, and what it left, by the footers of its Parquet files."""

import json
import logging
import uuid
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.landing.parquet import MEMBER
from tidegate.model.batch import Batch, LandedFile
from tidegate.model.errors import BatchFailedError
from tidegate.model.landing_request import JobLanding, LandingRequest, OffsetRun
from tidegate.model.offsets import TopicPartition
from tidegate.parquet.checksums import checksums_of
from tidegate.parquet.files import make_durable, put
from tidegate.parquet.hidden import is_hidden
from tidegate.parquet.locations import locate, unless_refused

log = logging.getLogger(__name__)

_RESULT = "_result"
_PLACE = ("topic", "partition", "offset")


class ParquetLandingRequests:
    """Orders below the URI of a landing; implements ports.LandingRequests.

    `<uri>/<subscription>/<batch id>/member-<n>/<attempt>/*.parquet`, with the job's result in `_result/` there, and
    the order itself in `orders/<attempt>.json`, beside the members.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def submit(self, batch: Batch, member: int, poll_timeout_ms: int) -> LandingRequest:
        """See ports.LandingRequests. Raises UnavailableError if the file system refuses."""
        system, root = self._place
        attempt = uuid.uuid4().hex
        below = f"{batch.subscription}/{batch.id}"
        request = LandingRequest(
            uri=f"{self._uri}/{below}/orders/{attempt}.json",
            subscription=batch.subscription,
            batch_id=batch.id,
            folder=f"{self._uri}/{below}/{MEMBER}{member}/{attempt}",
            ranges=batch.share(member),
            poll_timeout_ms=poll_timeout_ms,
        )
        with unless_refused(f"the order {request.uri} can't be written"):
            put(system, f"{root}/{below}/orders/{attempt}.json", request.to_json().encode())
        return request

    def result(self, request: LandingRequest) -> JobLanding | None:
        """See ports.LandingRequests; a part of each file at a time, for its checksum, and its footer for the rest."""
        system, folder = locate(request.folder)
        with unless_refused(f"what lies in {request.folder} can't be read"):
            said = _said(system, f"{folder}/{_RESULT}")
            if said is None:
                return None
            found = _listed(system, folder)
            names = sorted(name for name in found if not is_hidden(name))
            files: list[LandedFile] = []
            stretches: list[OffsetRun] = []
            sums = checksums_of(system, [f"{folder}/{name}" for name in names])
            for name, checksum in zip(names, sums, strict=True):
                uri = f"{request.folder}/{name}"
                of_file = tuple(_stretches(system, f"{folder}/{name}", uri))
                files.append(LandedFile(uri, sum(one.records for one in of_file), found[name], checksum))
                stretches += of_file
            make_durable(system, [f"{folder}/{name}" for name in names])
        return JobLanding(said, tuple(files), tuple(stretches))

    def cancel(self, request: LandingRequest) -> None:
        """See ports.LandingRequests; what can't be removed stays, with a warning: it harms nobody."""
        system, folder = locate(request.folder)
        try:
            system.delete_dir(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("what an attempt that failed has written is left behind: %s (%s)", error, request.folder)

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        return locate(self._uri)


def _listed(system: fs.FileSystem, folder: str) -> dict[str, int]:
    """The files below a folder by their names there, with their sizes in bytes."""
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
    entries = system.get_file_info(selector)
    return {entry.path.removeprefix(f"{folder}/"): entry.size for entry in entries if entry.type == fs.FileType.File}


def _said(system: fs.FileSystem, folder: str) -> int | None:
    """The number of records that the job's result names; None without a result."""
    names = [name for name in _listed(system, folder) if not is_hidden(name)]
    if not names:
        return None
    try:
        with system.open_input_stream(f"{folder}/{names[0]}") as stream:
            return int(json.loads(stream.readall())["records"])
    except (ValueError, KeyError, TypeError) as error:
        raise BatchFailedError(f"{folder} holds no result of a landing job: {error!r}") from error


def _stretches(system: fs.FileSystem, path: str, uri: str) -> Iterator[OffsetRun]:
    """One for each row group, whose statistics name the one partition that it is of.

    A task of Spark's Kafka source reads of one partition, and its records go to a file of its own.
    """
    try:
        with system.open_input_file(path) as opened:
            metadata = pq.read_metadata(opened)
    except pa.ArrowInvalid as error:
        raise BatchFailedError(f"{uri} isn't a whole Parquet file: {error}") from error
    columns = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    if lacking := [name for name in _PLACE if name not in columns]:
        raise BatchFailedError(f"{uri} has no {', '.join(lacking)}, so it holds no landed records")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            bounds = {name: group.column(columns[name]).statistics for name in _PLACE}
            yield _stretch(uri, group.num_rows, bounds)


def _stretch(uri: str, records: int, bounds: dict[str, pq.Statistics]) -> OffsetRun:
    for name in _PLACE:
        if bounds[name] is None or not bounds[name].has_min_max or bounds[name].null_count:
            raise BatchFailedError(f"{uri} doesn't tell its records' {name} in its footer")
    topic, partition, offset = (bounds[name] for name in _PLACE)
    if (topic.min, partition.min) != (topic.max, partition.max):
        raise BatchFailedError(f"{uri} mixes records of {topic.min}-{partition.min} and {topic.max}-{partition.max}")
    return OffsetRun(uri, TopicPartition(topic.min, partition.min), records, offset.min, offset.max)
