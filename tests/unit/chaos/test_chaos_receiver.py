from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from chaos.receiver import Receiver, read_received


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    with Receiver(tmp_path / "received.csv") as started:
        yield started


def send(connection: HTTPConnection, partition: int, offset: int, number: int) -> None:
    key = f"a-topic-{partition}-{offset}"
    connection.request("POST", "/numbers", str(number), {"Idempotency-Key": key, "QOH-Partition": str(partition)})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")


def test_what_it_received_is_known_though_it_is_killed(receiver: Receiver, tmp_path: Path) -> None:
    for start in (0, 3):
        connection = HTTPConnection(receiver.address.removeprefix("http://"), timeout=30)
        for n in range(start, start + 3):
            send(connection, 1, 2 * n, n)
        connection.close()
        receiver.kill()
        receiver.restart()

    received = read_received(tmp_path / "received.csv", "numbers")
    assert received.partitions.tolist() == [1] * 6
    assert received.offsets.tolist() == [0, 2, 4, 6, 8, 10]
    assert received.numbers.tolist() == list(range(6))
    assert received.restarts.tolist() == [3, 6]
