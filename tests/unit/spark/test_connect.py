import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.spark.connect import ConnectProcessor, connect_url
from tidegate.spark.job import processor_of
from tidegate.spark.scripts import processing_job
from tidegate.spark.submit import SubmitProcessor


def connection(kind: str = "spark_connect", **values: object) -> Connection:
    known = {"host": "spark", "port": 15002, "login": None, "password": None, "extra": {}, **values}
    return Connection(id="spark_default", type=kind, **known)  # type: ignore[arg-type]


def test_host_and_port_make_the_url() -> None:
    assert connect_url(connection()) == "sc://spark:15002"


def test_user_token_and_tls_are_its_parameters() -> None:
    url = connect_url(connection(login="ann", password="s3 cret", extra={"use_ssl": True}))
    assert url == "sc://spark:15002/;user_id=ann;token=s3%20cret;use_ssl=True"


def test_a_slash_behind_the_host_is_none_too_many() -> None:
    assert connect_url(connection(host="sc://spark:15002/", port=None)) == "sc://spark:15002"
    assert connect_url(connection(host="spark/", password="x")) == "sc://spark:15002/;token=x"


def test_without_a_host_the_connection_is_named() -> None:
    with pytest.raises(WrongDefinitionError, match="spark_default"):
        connect_url(connection(host=None))


def test_the_token_is_not_shown() -> None:
    assert "cret" not in repr(ConnectProcessor("sc://spark/;token=cret", processing_job()))


def test_the_connections_type_says_how_the_job_runs() -> None:
    assert isinstance(processor_of(connection(), str(processing_job())), ConnectProcessor)
    assert isinstance(processor_of(connection("spark", host="local[2]"), str(processing_job())), SubmitProcessor)
    with pytest.raises(WrongDefinitionError, match="type http"):
        processor_of(connection("http"), str(processing_job()))
