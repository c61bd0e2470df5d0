import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.batch import Batch, Delivery, LandedFile, State
from tidegate.model.decoding import Decoder, Decoding, Framing
from tidegate.model.errors import BatchFailedError
from tidegate.model.manifest import Counts, Manifest, Published, Result, StagedFile, audit, ranges_to_json
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Deserializer

offsets = st.integers(0, 2**63 - 1)
texts = st.text(max_size=20)


def manifest(
    ranges: tuple[Range, ...] = (Range("t", 0, 0, 10),),
    records: dict[TopicPartition, int] | None = None,
    files: tuple[LandedFile, ...] = (LandedFile("file:///landing/0.parquet", 8, 100, "crc32:00000001"),),
    row_accounting: str = "strict",
) -> Manifest:
    batch = Batch(
        id="b1",
        subscription="flights",
        group="g",
        receipt=Receipt("inc"),
        ranges=ranges,
        shares=(tuple(r.at for r in ranges),),
        output="file:///lake/flights",
        partition_by=("carrier",),
        state=State.PROCESSING,
        records={TopicPartition("t", 0): 8} if records is None else records,
        files=files,
    )
    return Manifest(
        batch, Delivery(2, "tok"), "transforms.flights:departures", row_accounting, "file:///staging/b1-tok"
    )


RESULT = Result("b1", "tok", "a1", read=8, filtered=1, files=(), rejected_files=())

DOCUMENT: dict[str, Any] = {
    "format": 1,
    "batch_id": "b1",
    "delivery": "tok",
    "attempt": "a1",
    "read": 8,
    "filtered": 1,
    "files": [{"path": "carrier=UA/part-0.parquet", "bytes": 10}],
    "rejected_files": [{"path": "_rejected/part-0.parquet", "bytes": 5}],
}


@st.composite
def landings(draw: st.DrawFn) -> Manifest:
    """A manifest of ranges, records and files of any kind."""
    partitions = draw(st.sets(st.tuples(texts, st.integers(0, 10**6)), max_size=6))
    ranges = []
    for topic, partition in sorted(partitions):
        start, end = sorted((draw(offsets), draw(offsets)))
        ranges.append(Range(topic, partition, start, end))
    files = draw(st.lists(st.builds(LandedFile, texts, offsets, offsets, st.none() | texts), max_size=4))
    return manifest(tuple(ranges), {r.at: draw(offsets) for r in ranges}, tuple(files))


# The manifest


def test_only_tables_have_a_layout_of_their_rows() -> None:
    of_a_folder, schema = manifest(), {"type": "struct", "fields": []}
    of_a_table = replace(of_a_folder, batch=replace(of_a_folder.batch, output="iceberg://lake/flights/departures"))
    rescuing = replace(of_a_table, rescues=True, table_schema=json.dumps(schema))
    layouts = [json.loads(each.to_json()).get("layout", "none") for each in (of_a_folder, of_a_table, rescuing)]
    added = {"batch_id_column": "batch_id", "keeps_partition_columns": True}
    assert layouts == [
        "none",
        {**added, "rescued_data_column": None, "table_schema": None},
        {**added, "rescued_data_column": "_rescued_data", "table_schema": schema},
    ]


def test_the_size_of_files_is_said_where_there_is_one() -> None:
    assert "target_file_bytes" not in json.loads(manifest().to_json())
    assert json.loads(replace(manifest(), target_file_bytes=5).to_json())["target_file_bytes"] == 5


@given(landings())
def test_what_is_published_comes_back_from_its_manifest(some: Manifest) -> None:
    published = Published.from_json(some.to_json())
    batch = some.batch
    expected = Published(batch.id, batch.ranges, dict(batch.records), batch.files, batch.rows, batch.rejected)
    assert published == replace(expected, filtered=batch.filtered)


def test_the_manifest_says_what_to_process_and_where_to_write() -> None:
    document = json.loads(manifest().to_json())
    assert document == {
        "format": 1,
        "subscription": "flights",
        "group": "g",
        "batch_id": "b1",
        "receipt": "tidegate1 inc - 0",
        "delivery": {"number": 2, "token": "tok"},
        "records": 8,
        "rows": None,
        "rejected": None,
        "filtered": None,
        "ranges": [{"topic": "t", "partition": 0, "start": 0, "end": 10, "records": 8}],
        "files": [{"uri": "file:///landing/0.parquet", "records": 8, "bytes": 100, "checksum": "crc32:00000001"}],
        "transform": "transforms.flights:departures",
        "output": "file:///lake/flights",
        "partition_by": ["carrier"],
        "row_accounting": "strict",
        "commit_strategy": "after-processing",
        "progress": "whole-batch",
        "keeps_state": False,
        "staging": "file:///staging/b1-tok",
    }


def test_the_manifest_says_how_to_decode_what_is_not_to_stay_bytes() -> None:
    framings = (Framing(b"\x00\x00\x00\x00\x01", schema='"long"'), Framing(b"\x00\x00\x00\x00\x02", problem="gone"))
    decoding = Decoding(
        Decoder(Deserializer()), Decoder(Deserializer("avro"), '"double"', "schema id 2", framings), fails=True
    )
    document = json.loads(replace(manifest(), decoding=decoding).to_json())
    assert document["format"] == 1
    assert document["deserialization"] == {
        "fails": True,
        "key": {"name": "bytes", "encoding": "UTF-8", "schema": None, "reader": None, "read_by": None, "framings": []},
        "value": {
            "name": "avro",
            "encoding": "UTF-8",
            "schema": None,
            "reader": '"double"',
            "read_by": "schema id 2",
            "framings": [{"prefix": "0000000001", "schema": '"long"'}, {"prefix": "0000000002", "problem": "gone"}],
        },
    }


def test_a_partition_without_records_has_none() -> None:
    assert ranges_to_json(manifest(records={}).batch)[0]["records"] == 0


# The result


def test_a_result_is_read_as_the_job_wrote_it() -> None:
    assert Result.from_json(json.dumps(DOCUMENT)) == replace(
        RESULT,
        files=(StagedFile("carrier=UA/part-0.parquet", 10),),
        rejected_files=(StagedFile("_rejected/part-0.parquet", 5),),
    )


@pytest.mark.parametrize("missing", DOCUMENT)
def test_a_result_that_lacks_anything_fails_the_batch(missing: str) -> None:
    with pytest.raises(BatchFailedError, match=missing):
        Result.from_json(json.dumps({name: value for name, value in DOCUMENT.items() if name != missing}))


@given(
    st.text(max_size=30)
    | st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)).map(
        json.dumps
    )
)
def test_what_is_no_result_fails_the_batch(text: str) -> None:
    with pytest.raises(BatchFailedError):
        Result.from_json(text)


def test_a_result_of_another_format_fails_the_batch() -> None:
    with pytest.raises(BatchFailedError, match="has format 2; this is format 1"):
        Result.from_json(json.dumps(DOCUMENT | {"format": 2}))


# The audit


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 40))
def test_a_strict_audit_accounts_for_every_record(written: int, rejected: int, filtered: int, records: int) -> None:
    some = manifest(records={TopicPartition("t", 0): records})
    result = replace(RESULT, read=records, filtered=filtered)
    if written + rejected + filtered == records:
        audit(some, result, Counts(written, rejected))
    else:
        with pytest.raises(
            BatchFailedError, match=rf"{records} records and accounts for {written + rejected + filtered}"
        ):
            audit(some, result, Counts(written, rejected))


@pytest.mark.parametrize(
    ("written", "remedy"),
    [(4, "return what it drops as rejected"), (10, "return each record once, as a row or else as")],
)
def test_the_remedy_is_for_records_that_lack_or_come_twice(written: int, remedy: str) -> None:
    some = manifest(records={TopicPartition("t", 0): 5})
    with pytest.raises(BatchFailedError, match=remedy):
        audit(some, replace(RESULT, read=5, filtered=0), Counts(written, 0))


def test_withheld_rows_are_accounted_for() -> None:
    some = manifest(records={TopicPartition("t", 0): 8})
    result = replace(RESULT, read=8, filtered=1, withheld=3)
    audit(some, result, Counts(3, 1))
    with pytest.raises(BatchFailedError, match="2 written, 1 rejected, 1 filtered, 3 withheld"):
        audit(some, result, Counts(2, 1))
    assert Result.from_json(json.dumps(DOCUMENT | {"withheld": 3})).withheld == 3


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_free_audit_lets_a_transform_explode_or_aggregate(written: int, rejected: int, filtered: int) -> None:
    audit(manifest(row_accounting="free"), replace(RESULT, filtered=filtered), Counts(written, rejected))


@pytest.mark.parametrize("row_accounting", ["strict", "free"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(RESULT, batch_id="b2"), "result is of batch b2"),
        (replace(RESULT, delivery="other"), "delivery other"),
        (replace(RESULT, read=7), "8 records landed and the job read 7"),
        (replace(RESULT, read=9), "8 records landed and the job read 9"),
    ],
    ids=["batch", "delivery", "fewer", "more"],
)
def test_no_audit_takes_a_result_of_something_else(row_accounting: str, wrong: Result, message: str) -> None:
    with pytest.raises(BatchFailedError, match=message):
        audit(manifest(row_accounting=row_accounting), wrong, Counts(7, 0))


# A state that is kept between batches

STATES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(texts, s)
)


@pytest.mark.long
@given(STATES)
def test_a_state_goes_to_the_job_and_from_its_result_into_the_lake_as_it_is(value: Any) -> None:
    result = Result.from_json(json.dumps(DOCUMENT | {"state": value}))
    handed = json.loads(replace(manifest(), state=result.state).to_json())
    assert (handed.get("state"), "new_state" in handed) == (value, False)
    published = Published.from_json(replace(manifest(), new_state=result.state).to_json())
    assert published.state == result.state
    assert (None if published.state is None else json.loads(published.state)) == value


def test_a_result_without_a_word_of_a_state_has_none() -> None:
    assert Result.from_json(json.dumps(DOCUMENT)).state is None


def test_only_checkpoint_keeps_a_state() -> None:
    given = replace(RESULT, state="1")
    counts = Counts(written=7, rejected=0)
    with pytest.raises(BatchFailedError, match=r"commit-strategy: checkpoint .* after-processing"):
        audit(manifest(), given, counts)
    checkpointed = manifest()
    audit(replace(checkpointed, batch=replace(checkpointed.batch, commit_strategy="checkpoint")), given, counts)
