import os
import threading

import pytest
from moto_s3 import MotoS3, OneConnection, running_moto, store_connection
from pyarrow import fs
from refusing_store import EXPIRED, refusing

from tidegate.model.errors import UnauthorizedError, UnavailableError, WrongDefinitionError
from tidegate.parquet import known_stores
from tidegate.parquet.known_stores import object_place, store_of, use_connections
from tidegate.parquet.locations import locate
from tidegate.parquet.object_stores import ObjectStore

pytestmark = pytest.mark.object_store


@pytest.fixture(scope="module")
def moto():
    with running_moto() as server:
        server.bucket("lake")
        yield server


class Counted(OneConnection):
    def __init__(self, connection):
        super().__init__(connection)
        self.asked = []

    def get(self, connection_id):
        self.asked.append(connection_id)
        return super().get(connection_id)


def test_a_uri_names_its_connection_before_the_bucket():
    place = object_place("s3://store@lake/a b/c%20@d/")
    assert (place.connection, place.bucket, place.key) == ("store", "lake", "a b/c%20@d")
    assert place.uri == "s3://lake/a b/c%20@d"
    assert object_place("s3a://lake/x").connection is None
    assert object_place("file:///x") is object_place("gs://lake/x") is None


@pytest.mark.parametrize("uri", ["s3://@lake/x", "s3://store@/x", "s3:///x", "s3://key:secret@lake/x"])
def test_a_uri_without_bucket_or_with_a_password_is_refused_and_not_quoted(uri):
    with pytest.raises(WrongDefinitionError, match="s3://connection@bucket/folder") as refused:
        locate(uri)
    assert "secret" not in str(refused.value)


def test_files_are_written_and_read_by_the_connection_that_their_uri_names(moto: MotoS3):
    use_connections(OneConnection(moto.connection()))
    system, path = locate("s3://store@lake/a b/c%20d?=#.txt")
    with system.open_output_stream(path) as stream:
        stream.write(b"content")
    assert moto.client.get_object(Bucket="lake", Key="a b/c%20d?=#.txt")["Body"].read() == b"content"
    system, path = locate("s3a://store@lake/a b")
    assert [each.size for each in system.get_file_info(fs.FileSelector(path))] == [7]


def test_a_connection_is_asked_for_once_by_all_threads(moto: MotoS3):
    connections = Counted(moto.connection())
    use_connections(connections)
    found = []
    threads = [threading.Thread(target=lambda: found.append(locate("s3://store@lake/x")[0])) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert connections.asked == ["store"]
    assert len({id(each) for each in found}) == 1


def test_replaced_keys_are_found_after_a_while(moto: MotoS3, monkeypatch):
    connections = OneConnection(moto.connection())
    use_connections(connections)
    assert store_of("s3://store@lake/x").access_key == "an-access-key"
    connections.connection = moto.connection(login="another-key")
    assert store_of("s3://store@lake/x").access_key == "an-access-key"
    monkeypatch.setattr(known_stores, "_FRESH_SECONDS", -1.0)
    assert store_of("s3://store@lake/x").access_key == "another-key"


def test_the_default_chain_is_that_of_the_environment(moto: MotoS3, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT_URL": moto.endpoint,
        "AWS_ACCESS_KEY_ID": "of-the-environment",
        "AWS_SECRET_ACCESS_KEY": "hush",
    }.items():
        monkeypatch.setenv(name, value)
    use_connections(OneConnection(moto.connection()))
    system, path = locate("s3://lake/by-default.txt")
    with system.open_output_stream(path) as stream:
        stream.write(b"1")
    assert "by-default.txt" in moto.keys("lake")


def test_what_a_connection_leaves_out_of_the_place_is_the_environments(moto: MotoS3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto.endpoint)
    use_connections(OneConnection(moto.connection(endpoint_url=None, region_name=None)))
    assert (store_of("s3://store@lake/x").endpoint, store_of("s3://store@lake/x").region) == (
        moto.endpoint,
        "us-east-1",
    )
    assert locate("s3://store@lake/x")[1] == "lake/x"


@pytest.fixture
def no_warehouse(monkeypatch):
    """As in a process that has opened no catalog yet, whatever other tests did in this one."""
    monkeypatch.setattr(known_stores._KNOWN, "_warehouses", {})


@pytest.mark.usefixtures("no_warehouse")
def test_below_a_warehouse_files_are_reached_as_its_catalog_says_and_beside_it_as_before(moto: MotoS3):
    moto.bucket("wares")
    known_stores.use_warehouse(
        "s3://wares/a/b", ObjectStore("ann", "hush", endpoint=moto.endpoint, region="us-east-1"), "ice"
    )
    known_stores.use_warehouse(
        "s3://wares/a/b/inner", ObjectStore("bob", "hush", endpoint=moto.endpoint, region="us-east-1"), "other"
    )
    known_stores.use_warehouse("of-a-rest-catalog", ObjectStore("eve", "hush"), "rest")
    system, path = locate("s3://wares/a/b/t/x.txt")
    with system.open_output_stream(path) as stream:
        stream.write(b"1")
    assert moto.keys("wares") == ["a/b/t/x.txt"]
    of = {uri: store_of(uri).access_key for uri in ("s3://wares/a/b", "s3a://wares/a/b/inner/t", "s3://wares/a/bc")}
    assert of == {"s3://wares/a/b": "ann", "s3a://wares/a/b/inner/t": "bob", "s3://wares/a/bc": None}
    use_connections(OneConnection(moto.connection()))
    assert store_of("s3://store@wares/a/b").access_key not in ("ann", "bob"), "a connection in the URI comes first"
    known_stores.use_warehouse(
        "s3://nowhere", ObjectStore("ann", "hush", endpoint=moto.endpoint, region="us-east-1"), "ice"
    )
    with pytest.raises(WrongDefinitionError, match=r"no bucket nowhere with the s3\.\* of connection ice"):
        locate("s3://nowhere/x")


def test_a_bucket_that_is_missing_is_told_by_name(moto: MotoS3):
    use_connections(OneConnection(moto.connection()))
    with pytest.raises(WrongDefinitionError, match="there is no bucket nowhere with connection store"):
        locate("s3://store@nowhere/x")


def test_a_bucket_that_no_region_of_amazons_has_is_told_by_name(monkeypatch):
    def nowhere(bucket: str) -> str:
        raise OSError(f"Bucket '{bucket}' not found")

    monkeypatch.setattr("pyarrow.fs.resolve_s3_region", nowhere)
    monkeypatch.delenv("AWS_REGION", raising=False)
    use_connections(OneConnection(store_connection(None, region_name=None)))
    with pytest.raises(WrongDefinitionError, match="there is no bucket nowhere with connection store"):
        locate("s3://store@nowhere/x")


def test_a_store_that_cant_be_reached_is_unavailable_and_asked_again_next_time(moto: MotoS3):
    connections = OneConnection(store_connection("http://127.0.0.1:1"))
    use_connections(connections)
    with pytest.raises(UnavailableError, match="the bucket lake can't be reached with connection store") as failed:
        locate("s3://store@lake/x")
    assert "a-secret-key" not in str(failed.value)
    use_connections(OneConnection(moto.connection()))
    assert locate("s3://store@lake/x")[1] == "lake/x"


def test_a_session_token_that_has_expired_is_no_store_that_is_away(monkeypatch):
    renew = "the bucket lake can't be used with {}: the session token has expired or is wrong: renew it in {}"
    with refusing(EXPIRED, 400) as endpoint:
        use_connections(OneConnection(store_connection(endpoint, aws_session_token="a-session-token")))
        with pytest.raises(UnauthorizedError) as failed:
            locate("s3://store@lake/x")
        assert str(failed.value) == renew.format("connection store", "connection store")
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UnauthorizedError) as failed:
            locate("s3://lake/x")
        assert str(failed.value) == renew.format("the default credentials", "the environment")


def test_another_bad_request_says_what_the_store_says():
    malformed = "<Error><Code>InvalidRequest</Code><Message>Sign by version 5.</Message></Error>"
    with refusing(malformed, 400) as endpoint:
        use_connections(OneConnection(store_connection(endpoint)))
        with pytest.raises(UnavailableError, match="Sign by version 5"):
            locate("s3://store@lake/x")


def test_without_connections_a_uri_cant_name_one():
    use_connections(None)
    with pytest.raises(WrongDefinitionError, match="connection store: Airflow's connections can't be asked for"):
        locate("s3://store@lake/x")


def test_a_forked_process_opens_its_own_and_waits_for_no_thread_of_its_parent(moto: MotoS3):
    use_connections(OneConnection(moto.connection()))
    locate("s3://store@lake/x")
    held, done = threading.Event(), threading.Event()

    def hold():
        with known_stores._KNOWN._lock:
            held.set()
            done.wait(120)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(120)
    child = os.fork()
    if child == 0:
        os._exit(0 if not known_stores._KNOWN._kept and known_stores._KNOWN._lock.acquire(timeout=5) else 1)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
