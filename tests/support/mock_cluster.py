"""librdkafka's own mock cluster, which can be told to answer with an error that a real broker gives by chance only."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

OFFSET_FETCH = 9

_PRODUCER = 0


class MockCluster:
    """One broker of protocol alone, with the topic `events`; `answer` makes it refuse requests of one kind."""

    def __init__(self) -> None:
        self._lib = _librdkafka()
        why = ctypes.create_string_buffer(512)
        self._handle = self._lib.rd_kafka_new(_PRODUCER, self._lib.rd_kafka_conf_new(), why, len(why))
        if not self._handle:
            raise RuntimeError(why.value.decode())
        self._cluster = self._lib.rd_kafka_mock_cluster_new(self._handle, 1)
        self._lib.rd_kafka_mock_topic_create(self._cluster, b"events", 1, 1)
        self.bootstrap_servers: str = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def answer(self, request: int, *codes: int) -> None:
        """Let the next requests of this kind (Kafka's api key) be answered with these errors, one each."""
        errors = [ctypes.c_int(code) for code in codes]
        self._lib.rd_kafka_mock_push_request_errors(self._cluster, request, len(errors), *errors)

    def close(self) -> None:
        """Stop it."""
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._handle)


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    """A mock cluster that ends with its context."""
    cluster = MockCluster()
    try:
        yield cluster
    finally:
        cluster.close()


def _librdkafka() -> ctypes.CDLL:
    """The library that the client itself has loaded."""
    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = next(beside.glob("librdkafka*"), None)
    if found is None:
        pytest.skip("this build of confluent-kafka brings no librdkafka of its own")
    lib = ctypes.CDLL(str(found))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    lib.rd_kafka_conf_new.restype = pointer
    lib.rd_kafka_new.restype = pointer
    lib.rd_kafka_new.argtypes = [ctypes.c_int, pointer, text, ctypes.c_size_t]
    lib.rd_kafka_mock_cluster_new.restype = pointer
    lib.rd_kafka_mock_cluster_new.argtypes = [pointer, ctypes.c_int]
    lib.rd_kafka_mock_cluster_bootstraps.restype = text
    lib.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    lib.rd_kafka_mock_topic_create.argtypes = [pointer, text, ctypes.c_int, ctypes.c_int]
    lib.rd_kafka_mock_push_request_errors.argtypes = [pointer, ctypes.c_int16, ctypes.c_size_t]
    lib.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
    lib.rd_kafka_destroy.argtypes = [pointer]
    return lib


COORDINATOR_STARTS = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
