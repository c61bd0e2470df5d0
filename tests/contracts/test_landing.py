"""What every landing promises; the double in memory and Parquet files are held to the same."""

import json
import uuid
import zlib
from collections.abc import Iterator, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto_s3 import MotoS3, OneConnection, running_moto
from pyarrow import fs

from tidegate.kafka.columns import SCHEMA
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.batch import Batch, Delivery, LandedFile
from tidegate.model.errors import BatchFailedError, CorruptFileError, LostDataError, UnavailableError
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Failure
from tidegate.parquet.files import remove_empty
from tidegate.parquet.known_stores import use_connections
from tidegate.parquet.locations import locate
from tidegate.ports import Landing
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.source import ReadRecord
from tidegate.testing.topics import Record


class Place(Protocol):
    """A landing, chunks that belong to it, and what lies there."""

    landing: Landing

    def chunk(self, first: int, end: int) -> Sized: ...
    def valued(self, *values: bytes | None) -> Sized: ...
    def read(self, *records: ReadRecord) -> Sized: ...
    def offsets(self, file: LandedFile) -> list[int]: ...
    def uris(self) -> set[str]: ...
    def text(self, uri: str) -> str: ...
    def damage(self, file: LandedFile) -> None: ...


class MemoryPlace:
    def __init__(self) -> None:
        self.landing = MemoryLanding()

    def chunk(self, first: int, end: int) -> Sized:
        return tuple(ReadRecord("flights", 0, offset, Record(b"value")) for offset in range(first, end))

    def valued(self, *values: bytes | None) -> Sized:
        return tuple(ReadRecord("flights", 0, offset, Record(value)) for offset, value in enumerate(values))

    def read(self, *records: ReadRecord) -> Sized:
        return records

    def offsets(self, file: LandedFile) -> list[int]:
        return [record.offset for record in self.landing.files[file.uri]]

    def uris(self) -> set[str]:
        return {*self.landing.files, *self.landing.manifests}

    def text(self, uri: str) -> str:
        return self.landing.manifests[uri]

    def damage(self, file: LandedFile) -> None:
        self.landing.damaged.add(file.uri)


class _Chunks:
    """Chunks of a landing in Parquet files, and what such files hold."""

    def chunk(self, first: int, end: int) -> Sized:
        place: dict[str, Any] = {"topic": "flights", "partition": 0}
        return pa.RecordBatch.from_pylist([place | {"offset": offset} for offset in range(first, end)], SCHEMA)

    def valued(self, *values: bytes | None) -> Sized:
        return pa.RecordBatch.from_pylist([{"topic": "flights", "value": value} for value in values], SCHEMA)

    def read(self, *records: ReadRecord) -> Sized:
        return pa.RecordBatch.from_pylist([row(one) for one in records], SCHEMA)

    def offsets(self, file: LandedFile) -> list[int]:
        system, path = locate(file.uri)
        assert system.get_file_info(path).size == file.bytes
        found: list[int] = pq.read_table(path, filesystem=system)["offset"].to_pylist()
        return found


class ParquetPlace(_Chunks):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.landing = ParquetLanding(f"file://{folder}")

    def uris(self) -> set[str]:
        return {f"file://{path}" for path in self._folder.rglob("*") if path.is_file()}

    def text(self, uri: str) -> str:
        return Path(uri.removeprefix("file://")).read_text("utf-8")

    def damage(self, file: LandedFile) -> None:
        path = Path(file.uri.removeprefix("file://"))
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


class S3Place(_Chunks):
    def __init__(self, server: MotoS3) -> None:
        use_connections(OneConnection(server.connection()))
        self._server, self._bucket = server, server.bucket(f"landing-{uuid.uuid4().hex}")
        self._uri = f"s3://store@{self._bucket}"
        self.landing = ParquetLanding(f"{self._uri}/a landing %20")

    def uris(self) -> set[str]:
        return {f"{self._uri}/{key}" for key in self._server.keys(self._bucket)}

    def text(self, uri: str) -> str:
        content: bytes = self._object(uri)["Body"].read()
        return content.decode()

    def damage(self, file: LandedFile) -> None:
        content = bytes(byte ^ 1 for byte in self._object(file.uri)["Body"].read())
        self._server.client.put_object(Bucket=self._bucket, Key=file.uri.removeprefix(f"{self._uri}/"), Body=content)

    def _object(self, uri: str) -> Any:
        return self._server.client.get_object(Bucket=self._bucket, Key=uri.removeprefix(f"{self._uri}/"))


def row(read: ReadRecord) -> dict[str, Any]:
    """A record as it is landed."""
    record = read.record
    return {
        "key": record.key,
        "value": record.value,
        "topic": read.topic,
        "partition": read.partition,
        "offset": read.offset,
        "timestamp": record.timestamp,
        "timestampType": record.timestamp_type,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[MotoS3]:
    with running_moto() as server:
        yield server


@pytest.fixture(params=["memory", "parquet", pytest.param("s3", marks=pytest.mark.object_store)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "memory":
            return MemoryPlace()
        case "parquet":
            return ParquetPlace(tmp_path / "a landing %20")
        case _:
            return S3Place(request.getfixturevalue("server"))


def manifest() -> Manifest:
    batch = Batch(
        id="b1",
        subscription="flights",
        group="flights-lake",
        receipt=Receipt("incarnation"),
        ranges=(Range("flights", 0, 0, 5),),
        shares=((TopicPartition("flights", 0),),),
        output="file:///lake/flights",
        records={TopicPartition("flights", 0): 5},
    )
    return Manifest(batch, Delivery(1, "token1"), None, "strict", "file:///lake/flights/_staging/b1-token1")


def test_what_was_written_lies_in_the_files(place: Place) -> None:
    with place.landing.writer("flights", "b1", 0) as writer:
        writer.write(place.chunk(0, 3))
        writer.write(place.chunk(3, 5))
    (file,) = writer.files()
    assert (file.records, place.offsets(file)) == (5, [0, 1, 2, 3, 4])
    assert file.bytes > 0
    assert "/flights/b1/member-0/" in file.uri
    assert place.uris() == {file.uri}


FRAMED = b"\x00\x00\x00\x00\x01"
CONTENTS = (None, b"", b"plain", FRAMED[:4], FRAMED, FRAMED + b"\x02\x06x", FRAMED + b"\x02\x06yz", FRAMED + b"\x00")


@pytest.mark.parametrize(
    ("indexed", "found"),
    [(False, {FRAMED: 4}), (True, {FRAMED + b"\x02\x06": 2, FRAMED + b"\x00": 1})],
)
def test_framings_are_counted_by_side_over_all_files(place: Place, found: dict[bytes, int], *, indexed: bool) -> None:
    files = []
    for member in range(2):
        with place.landing.writer("flights", "b1", member) as writer:
            writer.write(place.valued(*CONTENTS))
        files += [file.uri for file in writer.files()]
    assert dict(place.landing.framings(files, "value", indexed=indexed)) == {one: 2 * n for one, n in found.items()}
    assert dict(place.landing.framings(files, "key", indexed=indexed)) == {}
    assert dict(place.landing.framings([], "value", indexed=indexed)) == {}


FAILURE = Failure("java.lang.Exception", "no", "cause", "why")
HEADERS = (("a", b"1"), ("b", None), ("a", b""), ("a", b"1"))
READ = (
    ReadRecord("flights", 1, 7, Record(b"value", b"key", 1_500_000_000_123, HEADERS)),
    ReadRecord("flights", 1, 5, Record(b"", b"", 1, (), timestamp_type=1)),
    ReadRecord("others", 0, 2**40, Record(None, None, 0)),
    ReadRecord("others", 0, 3, Record(b"old", None, -1, timestamp_type=-1)),
)


def test_landed_records_come_back_in_their_order_as_rejected(place: Place) -> None:
    uris = []
    for part in (READ[:3], READ[3:]):
        with place.landing.writer("flights", "b1", 0) as writer:
            writer.write(place.read(*part))
        uris += [file.uri for file in writer.files()]
    found = list(place.landing.records(uris, FAILURE))
    assert [(record.at, record.offset) for record in found] == [((r.topic, r.partition), r.offset) for r in READ]
    assert [record.timestamp for record in found] == [1_500_000_000_123, 1, 0, None]
    assert [(record.key, record.value) for record in found] == [(r.record.key, r.record.value) for r in READ]
    assert [record.headers for record in found] == [HEADERS, (), (), ()]
    assert {record.failure for record in found} == {FAILURE}
    assert list(place.landing.records([], FAILURE)) == []


def test_files_that_are_as_they_were_landed_pass_and_one_that_has_changed_is_named(place: Place) -> None:
    first, second = attempt(place, "b1", 0), attempt(place, "b1", 1)
    place.landing.verify([first, second])
    place.landing.verify([])
    place.damage(second)
    place.landing.verify([first])
    with pytest.raises(CorruptFileError, match=rf"^{second.uri} has changed since it was written[^;]*$"):
        place.landing.verify([first, second])


def test_a_landed_file_that_is_gone_is_named(place: Place) -> None:
    first, second = attempt(place, "b1", 0), attempt(place, "b1", 1)
    place.landing.remove([first.uri])
    with pytest.raises(CorruptFileError, match=rf"^{first.uri} is gone$"):
        place.landing.verify([first, second])


def test_each_byte_of_a_landed_file_counts(tmp_path: Path) -> None:
    place = ParquetPlace(tmp_path)
    file = attempt(place, "b1", 0)
    path = Path(file.uri.removeprefix("file://"))
    whole = path.read_bytes()
    assert file.checksum == f"crc32:{zlib.crc32(whole):08x}"
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(CorruptFileError, match="has changed"):
            place.landing.verify([file])
    path.write_bytes(whole[:-1])
    with pytest.raises(CorruptFileError, match=f"has {len(whole) - 1} bytes, and {len(whole)} were written"):
        place.landing.verify([file])
    path.write_bytes(whole)
    place.landing.verify([file])


def test_a_file_of_an_earlier_tidegate_is_told_by_its_size_alone(tmp_path: Path) -> None:
    place = ParquetPlace(tmp_path)
    file = replace(attempt(place, "b1", 0), checksum=None)
    place.damage(file)
    place.landing.verify([file])
    with pytest.raises(CorruptFileError, match="bytes, and 1 were written"):
        place.landing.verify([replace(file, bytes=1)])


def test_records_of_a_file_that_is_gone_are_unavailable(place: Place) -> None:
    file = attempt(place, "b1", 0)
    place.landing.remove([file.uri])
    with pytest.raises(UnavailableError, match=file.uri.rpartition("/")[2]):
        list(place.landing.records([file.uri], FAILURE))


def test_a_landed_file_that_was_changed_is_named(tmp_path: Path) -> None:
    landing = ParquetLanding(f"file://{tmp_path}")
    (tmp_path / "garbled.parquet").write_bytes(b"x" * 100)
    pq.write_table(pa.table({"value": [b"x"]}), tmp_path / "other.parquet")
    with pytest.raises(LostDataError, match=r"garbled.parquet isn't a whole Parquet file"):
        list(landing.records([f"file://{tmp_path}/garbled.parquet"], FAILURE))
    with pytest.raises(LostDataError, match=r"other.parquet has no key, topic"):
        list(landing.records([f"file://{tmp_path}/other.parquet"], FAILURE))


def of_files(files: tuple[LandedFile, ...], within: Range, records: int) -> Batch:
    return replace(manifest().batch, ranges=(within,), records={within.at: records}, files=files)


def test_the_records_within_a_batch_are_awaited(place: Place) -> None:
    with place.landing.writer("flights", "b1", 0) as writer:
        writer.write(place.chunk(3, 9))
    for within, records in (
        (Range("flights", 0, 0, 9), 6),
        (Range("flights", 0, 4, 7), 3),
        (Range("flights", 0, 9, 9), 0),
    ):
        pending = place.landing.pending_acks(of_files(writer.files(), within, records))
        found = {at: one.now() for at, one in pending.items()}
        assert found[within.at].backlog(Range("flights", 0, 0, 99)) == records
        assert found[within.at].records(within) == records
    other = Range("flights", 1, 5, 5)
    assert place.landing.pending_acks(of_files(writer.files(), other, 0))[other.at].now().backlog(other) == 0
    for records in (2, 4):
        with pytest.raises(BatchFailedError, match="flights-0"):
            place.landing.pending_acks(of_files(writer.files(), Range("flights", 0, 4, 7), records))


def test_an_attempt_without_records_leaves_no_file(place: Place) -> None:
    with place.landing.writer("flights", "b1", 0) as writer:
        pass
    assert writer.files() == ()
    assert place.uris() == set()


def test_each_attempt_has_names_of_its_own(place: Place) -> None:
    files = []
    for _ in range(2):
        with place.landing.writer("flights", "b1", 0) as writer:
            writer.write(place.chunk(0, 3))
        files += writer.files()
    assert len({file.uri for file in files}) == 2
    assert [place.offsets(file) for file in files] == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_an_attempt_that_fails_leaves_nothing_and_touches_no_other(place: Place, trouble: type[BaseException]) -> None:
    with place.landing.writer("flights", "b1", 0) as earlier:
        earlier.write(place.chunk(0, 3))
    with pytest.raises(trouble), place.landing.writer("flights", "b1", 0) as writer:  # noqa: PT012 - it writes first
        writer.write(place.chunk(0, 3))
        raise trouble
    assert place.uris() == {file.uri for file in earlier.files()}


def test_a_manifest_is_stored_under_its_delivery_and_may_be_stored_again(place: Place) -> None:
    uris = {place.landing.put_manifest(manifest()) for _ in range(2)}
    assert place.uris() == uris
    (uri,) = uris
    assert uri.endswith("/flights/b1/manifests/token1.json")
    assert json.loads(place.text(uri))["delivery"] == {"number": 1, "token": "token1"}


def test_files_are_listed_by_batch_whoever_left_them_and_manifests_are_not(place: Place) -> None:
    landed = [attempt(place, batch_id, member) for batch_id, member in (("b1", 0), ("b1", 1), ("b12", 0))]
    place.landing.put_manifest(manifest())
    assert place.landing.data_files("flights", "b1") == {landed[0].uri, landed[1].uri}
    assert place.landing.data_files("flights", "b2") == frozenset()
    assert place.landing.data_files("others", "b1") == frozenset()


def test_files_that_are_not_named_as_ours_are_not_listed(tmp_path: Path) -> None:
    name, landing = "0" * 32, ParquetLanding(f"file://{tmp_path}")
    ours = [f"member-0/{name}-0.parquet", f"member-11/{name}/part-0.parquet", f"member-11/{name}/_result/x"]
    ours += [f"manifests/.{name}.json.{name}", f"orders/.{name}.json.{name}"]
    theirs = ["member-0/notes.txt", f"member-0/{name}.parquet", f"member-x/{name}-0.parquet", "member-0/old/a.parquet"]
    theirs += [".keep", f"notes/.{name}.json.{name}", "manifests/.hidden", f"manifests/{name}.json"]
    for file in (*ours, *theirs):
        path = tmp_path / "flights/b1" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert landing.data_files("flights", "b1") == {f"file://{tmp_path}/flights/b1/{file}" for file in ours}


def test_files_that_nobody_needs_are_removed_and_may_be_gone_already(place: Place) -> None:
    unneeded, needed = attempt(place, "b1", 0), attempt(place, "b1", 0)
    place.landing.remove([unneeded.uri])
    place.landing.remove([unneeded.uri])
    assert place.landing.data_files("flights", "b1") == {needed.uri}
    assert place.offsets(needed) == [0, 1, 2]


def attempt(place: Place, batch_id: str, member: int) -> LandedFile:
    with place.landing.writer("flights", batch_id, member) as writer:
        writer.write(place.chunk(0, 3))
    return writer.files()[0]


def land(place: Place, subscription: str, batch_id: str = "b1") -> LandedFile:
    with place.landing.writer(subscription, batch_id, 0) as writer:
        writer.write(place.chunk(0, 3))
    (file,) = writer.files()
    return file


def test_all_that_is_stored_of_a_batch_goes_and_nothing_of_another(place: Place) -> None:
    token = "0123456789abcdef" * 2
    of = manifest()
    document = place.landing.put_manifest(replace(of, delivery=Delivery(1, token)))
    file, renamed = land(place, "flights"), land(place, "planes")
    others = {land(place, "flights", "b2").uri, land(place, "gates").uri}
    stored = place.landing.stored("flights", "b1", [file.uri, renamed.uri])
    assert stored == {file.uri: file.bytes, renamed.uri: renamed.bytes, document: len(place.text(document).encode())}
    assert place.landing.discard("flights", "b1", [file.uri, renamed.uri]) == stored
    assert place.uris() == others
    assert place.landing.stored("flights", "b1", [file.uri, renamed.uri]) == {}
    assert place.landing.discard("flights", "b1", [file.uri, renamed.uri]) == {}
    assert place.landing.discard("flights", "b9", []) == {}


def test_what_lies_beside_a_batchs_files_is_found_and_goes_under_another_name_too(place: Place) -> None:
    named, left, other = land(place, "planes"), land(place, "planes"), land(place, "planes", "b2")
    assert place.landing.data_files("flights", "b1") == frozenset()
    assert place.landing.data_files("flights", "b1", [named.uri]) == {named.uri, left.uri}
    place.landing.remove([left.uri])
    assert place.uris() == {named.uri, other.uri}


def test_files_of_others_stay_with_their_folders_and_empty_folders_go(tmp_path: Path) -> None:
    place = ParquetPlace(tmp_path)
    land(place, "flights")
    land(place, "flights", "b2")
    folder = tmp_path / "flights/b1"
    order = folder / "orders" / f"{'0' * 32}.json"
    left = folder / "member-1" / ("1" * 32) / "_result" / "part-0.json"
    notes = folder / "manifests" / "why.txt"
    for path in (order, left, notes):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    place.landing.discard("flights", "b1", [])
    assert [path for path in folder.rglob("*") if path.is_file()] == [notes]
    assert [path.name for path in folder.iterdir()] == ["manifests"]
    place.landing.discard("flights", "b2", [])
    assert not (tmp_path / "flights/b2").exists()


def test_what_cannot_be_removed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ParquetPlace(tmp_path)
    file = land(place, "flights")

    def full(*_: Any) -> None:
        raise PermissionError(13, "not yours")

    monkeypatch.setattr("tidegate.landing.parquet.remove_empty", full)
    with pytest.raises(UnavailableError, match=r"/flights/b1 can't be removed .*not yours.*user may read and write"):
        place.landing.discard("flights", "b1", [file.uri])


def test_a_landing_elsewhere_is_found_by_its_files(tmp_path: Path) -> None:
    before, now = ParquetPlace(tmp_path / "before"), ParquetPlace(tmp_path / "now")
    file = land(before, "flights")
    land(now, "flights", "b2")
    assert now.landing.discard("flights", "b1", [file.uri]) == {file.uri: file.bytes}
    assert before.uris() == set()


def test_a_landing_that_holds_nothing_may_not_be_mounted_and_is_refused(tmp_path: Path) -> None:
    place = ParquetPlace(tmp_path / "landing")
    for folder in (None, tmp_path / "landing"):
        if folder is not None:
            folder.mkdir()
        for ask in (place.landing.stored, place.landing.discard):
            with pytest.raises(UnavailableError, match=r"holds nothing, and the ledger names files .*; mount it"):
                ask("flights", "b1", [f"file://{tmp_path}/landing/flights/b1/member-0/{'0' * 32}-0.parquet"])
            assert ask("flights", "b1", []) == {}


def test_folders_of_an_object_store_go_once_they_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").write_text("x")
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    remove_empty(system, "a")
    assert (tmp_path / "a/b").exists()
    (tmp_path / "a/file").unlink()
    remove_empty(system, "a")
    assert not (tmp_path / "a").exists()
    remove_empty(system, "a")
