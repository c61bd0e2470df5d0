"""Whether Spark can be reached, before a delivery is begun."""

import socket
from collections.abc import Iterator

import pytest

from tidegate.model.errors import SparkUnavailableError
from tidegate.spark.reach import check_connect, check_master

MASTERS = ("spark://{}", "k8s://{}", "k8s://https://{}", "k8s://http://{}", "spark://127.0.0.1:1,{}")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize("master", MASTERS)
def test_a_master_is_asked_at_each_of_its_addresses(server: socket.socket, master: str) -> None:
    address = "{}:{}".format(*server.getsockname())
    check_master(master.format(address), "spark_default")
    server.close()
    with pytest.raises(SparkUnavailableError, match=rf"spark_default can't be reached.*{address}: .*refused"):
        check_master(master.format(address), "spark_default")


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_a_master_without_an_address_is_not_asked(master: str) -> None:
    check_master(master, "spark_default")


def test_spark_connect_is_asked_where_its_url_says(server: socket.socket) -> None:
    url = "sc://{}:{}/;token=x".format(*server.getsockname())
    check_connect(url, "spark_default")
    server.close()
    with pytest.raises(SparkUnavailableError, match="Spark Connect of connection spark_default can't be reached"):
        check_connect(url, "spark_default")
