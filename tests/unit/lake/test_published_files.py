"""What readers are told to read: the files of published batches, in order, and nothing that merely lies there."""

import json
import sys
import uuid
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from moto_s3 import MotoS3, OneConnection, running_moto

from tidegate.lake.object_store.log import ObjectLog
from tidegate.lake.published_files import published_files, symlinks_of, write_symlinks
from tidegate.model.errors import UnavailableError, WrongDefinitionError
from tidegate.model.receipt import Receipt
from tidegate.parquet.known_stores import use_connections
from tidegate.parquet.locations import locate
from tidegate.ports.table_log import DataFile, Record
from tidegate.runtime.connections import AirflowConnections

BATCHES = [f"b{number:020x}" for number in range(1, 4)]
PATH = "carrier=A%2FA/day=__HIVE_DEFAULT_PARTITION__/part é%20.parquet"
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def moto():
    with running_moto() as server:
        yield server


@pytest.fixture
def folders(tmp_path):
    """An output of folders: two batches in the order 2, 1, the second by an earlier Tidegate, and what was staged."""
    output = tmp_path / "my lake 50%"
    for batch_id, receipt, listed in (
        (BATCHES[1], Receipt("i1", None, 0), True),
        (BATCHES[0], Receipt("i1", BATCHES[1], 1), False),
    ):
        for path in (PATH, "_rejected/part.parquet"):
            write(output / f"batch_id={batch_id}" / path)
        size = (output / f"batch_id={batch_id}" / PATH).stat().st_size
        document = {"batch_id": batch_id, "subscription": "s", "receipt": str(receipt), "ranges": [], "files": []}
        document |= {"rows": 3, "rejected": 0}
        if listed:
            document["output_files"] = [{"path": PATH, "bytes": size}, {"path": "_rejected/part.parquet", "bytes": 1}]
        (output / f"batch_id={batch_id}/_manifest.json").write_text(json.dumps(document))
    write(output / f"_staging/{BATCHES[2]}-{'0' * 32}/0" / PATH)
    return f"file://{output}"


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, path)


@pytest.fixture
def objects(moto: MotoS3):
    """An output on an object store with the same, and with a file of a reader's own elsewhere."""
    use_connections(OneConnection(moto.connection()))
    output = f"s3://store@{moto.bucket(f'lake-{uuid.uuid4().hex}')}/my lake 50%"
    log = ObjectLog()
    log.create(output, [], ["carrier", "day"])
    for number, batch_id in ((2, BATCHES[1]), (3, None), (5, BATCHES[0])):
        files = [] if batch_id is None else [staged(output, batch_id)]
        log.append(output, "i2", log.load(output, "i2", number), Record(number, number), files)
    log.append(output, "i1", log.load(output, "i1", 1), Record(1, 1), [])
    staged(output, BATCHES[2])
    return output


def staged(output: str, batch_id: str) -> DataFile:
    uri = f"{output}/data/{batch_id}-{'0' * 32}/0/{PATH}"
    system, path = locate(uri)
    pq.write_table(ROWS, path, filesystem=system)
    size = system.get_file_info(path).size
    return DataFile(uri, size, 3, (("carrier", "A/A"), ("day", None)))


def test_files_of_folders_come_in_the_order_of_their_batches(folders):
    found = published_files(folders)
    assert [(file.batch_id, file.number, file.rows) for file in found] == [(BATCHES[1], 1, None), (BATCHES[0], 2, None)]
    assert [file.uri for file in found] == [f"{folders}/batch_id={each}/{PATH}" for each in (BATCHES[1], BATCHES[0])]
    assert found[0].partition == (("batch_id", BATCHES[1]), ("carrier", "A/A"), ("day", None))
    assert {file.bytes for file in found} == {Path(found[0].path).stat().st_size}


@pytest.mark.object_store
def test_files_of_an_object_store_come_in_the_order_of_their_commits_by_uris_without_a_connection(objects):
    found = published_files(objects)
    assert [(file.batch_id, file.number, file.rows) for file in found] == [(BATCHES[1], 2, 3), (BATCHES[0], 5, 3)]
    bucket = objects.removeprefix("s3://store@")
    assert found[0].path == f"s3://{bucket}/data/{BATCHES[1]}-{'0' * 32}/0/{PATH}"
    assert found[0].partition == (("carrier", "A/A"), ("day", None))


@pytest.mark.object_store
def test_the_connection_may_be_one_of_the_environment(moto, objects):
    extra = {"endpoint_url": moto.endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "ann", "password": "hush", "extra": extra}
    use_connections(AirflowConnections({"AIRFLOW_CONN_STORE": json.dumps(connection)}))
    assert len(published_files(objects)) == 2


@pytest.fixture(params=["folders", pytest.param("objects", marks=pytest.mark.object_store)])
def output(request):
    return request.getfixturevalue(request.param)


def test_files_since_a_batch_are_those_of_later_commits(output):
    assert [file.batch_id for file in published_files(output, BATCHES[1])] == [BATCHES[0]]
    assert published_files(output, BATCHES[0]) == []
    with pytest.raises(WrongDefinitionError, match=f"batch {BATCHES[2]} has published no file in"):
        published_files(output, BATCHES[2])


@pytest.mark.object_store
def test_an_output_that_isnt_there_yet_has_none(tmp_path, moto):
    use_connections(OneConnection(moto.connection()))
    assert published_files(f"file://{tmp_path}/none") == []
    assert published_files(f"s3://store@{moto.bucket('empty')}/none") == []


@pytest.mark.parametrize("table", ["delta+file:///x", "delta+s3://store@lake/x", "iceberg://lake/a/b"])
def test_a_table_is_read_by_its_own_log(table):
    with pytest.raises(WrongDefinitionError, match="is a table, whose readers ask its own log"):
        published_files(table)


def test_without_obstore_an_output_on_an_object_store_says_what_to_install(monkeypatch):
    for name in ("commits", "calls", "log"):
        monkeypatch.delitem(sys.modules, f"tidegate.lake.object_store.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(
        WrongDefinitionError, match=r'obstore isn\'t installed: pip install "tidegate\[object-stores\]"'
    ):
        published_files("s3://store@lake/x")


def test_symlink_manifests_have_the_published_files_of_each_partition(output):
    files = published_files(output)
    folder = symlinks_of(output)
    number = write_symlinks(files, folder)
    assert number == write_symlinks(files, folder) == (2 if output.startswith("file") else 1)
    system, root = locate(folder)
    name = "carrier=A%2FA/day=__HIVE_DEFAULT_PARTITION__/manifest"
    if output.startswith("file"):
        name = f"batch_id={BATCHES[1]}/{name}"
    with system.open_input_stream(f"{root}/{name}") as stream:
        lines = stream.read().decode().splitlines()
    assert lines == [file.uri for file in files][: 1 if output.startswith("file") else 2]
    assert published_files(output) == files


def test_symlink_manifests_that_cant_be_written_are_told(folders, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UnavailableError, match="/taken/x can't be written"):
        write_symlinks(published_files(folders), f"file://{tmp_path}/taken/x")


def test_duckdb_reads_the_published_files_and_a_listing_reads_what_was_staged_too(folders):
    paths = [file.path for file in published_files(folders)]
    count = "SELECT count(*), count(DISTINCT batch_id) FROM read_parquet({}, hive_partitioning = true)"
    assert duckdb.execute(count.format(paths)).fetchone() == (6, 2)
    root = folders.removeprefix("file://")
    assert duckdb.execute(f"SELECT count(*) FROM '{root}/**/*.parquet'").fetchone() == (15,)  # noqa: S608


@pytest.mark.object_store
def test_a_listing_of_an_object_store_has_what_was_staged_too(objects):
    system, root = locate(objects)
    named = ds.dataset(
        [locate(file.uri.replace("s3://", "s3://store@"))[1] for file in published_files(objects)], filesystem=system
    )
    assert named.count_rows() == 6
    assert ds.dataset(f"{root}/data", filesystem=system, format="parquet").count_rows() == 9
