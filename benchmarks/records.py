"""The benchmarks' records: orders, the same for every run, with few repetitions within a record."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
_WORDS = ("placed", "shipped", "returned", "paid", "cancelled", "delayed", "insured", "express")
_BLOCK = 10_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of `records` records whose values have `size` bytes each; keys have 10 digits.

    In the form of Avro a value is what a serializer with a schema registry writes: a prefix of five bytes, numbers in
    binary, and strings with their lengths.
    """

    name: str
    size: int
    records: int
    header: bool = False
    form: Literal["json", "avro"] = "json"

    @property
    def each_partition(self) -> int:
        """Records in each partition."""
        return self.records // PARTITIONS

    @property
    def title(self) -> str:
        """As tables call it."""
        form = "" if self.form == "json" else f" of {self.form.capitalize()}"
        return f"{self.size:,} bytes{form}, {'one header' if self.header else 'no header'}"


def publish(topic: Topic, bootstrap: str) -> None:
    """Make the topic and fill it, as lz4 batches of up to 1 MB."""
    settings = {"bootstrap.servers": bootstrap}
    new = NewTopic(topic.name, PARTITIONS, 1, config={"max.message.bytes": "2000000"})
    admin = AdminClient(settings)  # its answers die with it
    admin.create_topics([new])[topic.name].result(30)
    producer = Producer(
        settings
        | {
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "message.max.bytes": 2_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 100_000,
        }
    )
    headers: list[tuple[str, bytes]] | None = [("source", b"orders-eu")] if topic.header else None
    for number, (key, value) in enumerate(_orders(topic)):
        partition = number % PARTITIONS
        try:
            producer.produce(topic.name, value, key, partition, headers=headers)
        except BufferError:
            producer.poll(1)
            producer.produce(topic.name, value, key, partition, headers=headers)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise TimeoutError(f"the broker didn't take all records of {topic.name} within 120 s")


def _orders(topic: Topic) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values; a value is filled up with hexadecimal digits of a trace, which compress to a half at best."""
    random = np.random.default_rng(20_260_101)
    head, tail = (_avro_head, b"") if topic.form == "avro" else (_json_head, b'"}')
    block = min(_BLOCK, max(1, 64_000_000 // topic.size))
    for first in range(0, topic.records, block):
        ids = random.integers(10**9, 10**10, block).tolist()
        cents = random.integers(100, 10**6, block).tolist()
        words = random.integers(0, len(_WORDS), block).tolist()
        traces = random.bytes(block * (topic.size // 2 + 1)).hex().encode()
        for n in range(min(block, topic.records - first)):
            begun = head(ids[n], cents[n], _WORDS[words[n]], n)
            missing = topic.size - len(begun) - len(tail)
            trace = traces[n * topic.size : n * topic.size + missing]
            yield str(ids[n]).encode(), begun + trace + tail


def _json_head(order: int, cents: int, state: str, n: int) -> bytes:
    at = f"2026-03-{1 + n % 28:02d}T{n % 24:02d}:{n % 60:02d}:00Z"
    return f'{{"order":{order},"cents":{cents},"state":"{state}","at":"{at}","trace":"'.encode()


def _avro_head(order: int, cents: int, state: str, n: int) -> bytes:
    word = state.encode()
    numbers = struct.pack("<qqqd", order, cents, 1_772_000_000_000 + 60_000 * n, cents / 3)
    return b"\0\0\0\0\7" + numbers + bytes([2 * len(word)]) + word
