"""Measures what each deserializer costs beside bytes, on values that say the same, in one run on one Spark.

Every deserializer decodes the same number of landed values; what Spark makes of them is evaluated and thrown away.
The best of several rounds counts, and rounds go through all deserializers in turn, so that a busy machine is busy
for all. Also measured: how fast the engine finds the framings of landed values, and what single long messages of
Protobuf cost the function that reads them on a worker. Prints a table.
"""

import argparse
import base64
import json
import struct
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from tidegate.kafka.columns import SCHEMA
from tidegate.landing.framings import framings_in
from tidegate.schemas.message_types import layout
from tidegate_local.java import find_java
from tidegate_local.spark_connect import SparkConnect
from tidegate_local.spark_jars import spark_jars
from tidegate_spark.deserializers.decode import Deserialization, check, decoded
from tidegate_spark.deserializers.protobuf_columns import Reader
from tidegate_spark.deserializers.step import Decoder, Framing
from tidegate_spark.outcome import LANDING_SCHEMA

_PREFIX = b"\x00\x00\x00\x00\x01"
_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Departure",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "int"},
            {"name": "delay", "type": "double"},
        ],
    }
)
_JSON = json.dumps(
    {"properties": {"carrier": {"type": "string"}, "flight": {"type": "integer"}, "delay": {"type": "number"}}}
)


@dataclass(frozen=True)
class Case:
    """A deserializer, and the value of a number as its serializer writes it."""

    name: str
    decoder: Decoder
    value: Callable[[int], bytes]


def cases() -> Iterator[Case]:
    """Every deserializer, bytes first."""
    yield Case("bytes", Decoder(), _json_value)
    yield Case("string", Decoder("string"), _json_value)
    yield Case("string, UTF-16", Decoder("string", "UTF-16"), lambda n: _json_value(n).decode().encode("utf-16"))
    for name, form in {"short": ">h", "integer": ">i", "long": ">q", "float": ">f", "double": ">d"}.items():
        yield Case(name, Decoder(name), partial(_packed, form))
    yield Case("uuid", Decoder("uuid"), lambda n: f"01234567-89ab-cdef-0123-{n:012x}".encode())
    yield Case("json, no schema", Decoder("json"), _json_value)
    yield Case("json", Decoder("json", schema="carrier string, flight int, delay double"), _json_value)
    framings = (Framing(_PREFIX, _AVRO),)
    yield Case(
        "json-schema", Decoder("json-schema", reader=_JSON, framings=framings), lambda n: _PREFIX + _json_value(n)
    )
    yield Case("avro", Decoder("avro", reader=_AVRO, framings=framings), lambda n: _PREFIX + _avro_value(n))
    indexed = (Framing(_PREFIX + b"\x00", "Departure"),)
    yield Case(
        "protobuf",
        Decoder("protobuf", reader=_layout(), framings=indexed),
        lambda n: _PREFIX + b"\x00" + _protobuf_value(n),
    )


def _packed(form: str, number: int) -> bytes:
    return struct.pack(form, number % 30_000)


def _json_value(number: int) -> bytes:
    return b'{"carrier": "UA", "flight": %d, "delay": %d.5}' % (number % 9_999, number % 100)


def _avro_value(number: int) -> bytes:
    return b"\x04UA" + _varint(2 * (number % 9_999)) + struct.pack("<d", number % 100 + 0.5)


def _protobuf_value(number: int) -> bytes:
    return b"\x0a\x02UA\x10" + _varint(number % 9_999) + b"\x19" + struct.pack("<d", number % 100 + 0.5)


def _varint(number: int) -> bytes:
    content = b""
    while number >= 0x80:  # noqa: PLR2004 (the bit that says that more follows)
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])


def _layout() -> str:
    return _layout_of({"carrier": "STRING", "flight": "INT32", "delay": "DOUBLE"}, "LABEL_OPTIONAL")


def _layout_of(fields: Mapping[str, str], label: str) -> str:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="departure.proto", syntax="proto3")
    message = file.message_type.add(name="Departure")
    for number, (name, kind) in enumerate(fields.items(), 1):
        kind_of = field.Type.Value(f"TYPE_{kind}")
        message.field.add(name=name, number=number, label=field.Label.Value(label), type=kind_of)
    return layout(base64.b64encode(file.SerializeToString()).decode(), [], "Departure")


def long_messages() -> dict[str, tuple[float, float]]:
    """For single messages of about 1 MB: the seconds and the MiB to read each, best of three."""
    reader = Reader(
        json.loads(_layout_of({"texts": "STRING", "numbers": "INT32", "floats": "FLOAT"}, "LABEL_REPEATED"))
    )
    numbers = b"".join(_varint(number % 300) for number in range(1_000_000))
    floats = struct.pack("<250000f", *range(250_000))
    sent = {
        "500,000 single numbers": b"\x10\x01" * 500_000,
        "300,000 texts": b"\x0a\x01x" * 300_000,
        "1,000,000 packed numbers": b"\x12" + _varint(len(numbers)) + numbers,
        "250,000 packed floats": b"\x1a" + _varint(len(floats)) + floats,
    }
    found = {}
    for name, content in sent.items():
        message = pa.array([content], pa.binary())
        took = min(seconds(partial(reader.read, message)) for _ in range(3))
        tracemalloc.start()
        reader.read(message)
        found[name] = took, tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    return found


def land(path: Path, case: Case, rows: int) -> None:
    """Write a landed file of these values."""
    values = [case.value(number) for number in range(rows)]
    columns: Mapping[str, pa.Array] = {
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["departures"] * rows),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
    }
    missing = {field.name: pa.nulls(rows, field.type) for field in SCHEMA if field.name not in columns}
    table = pa.table([{**columns, **missing}[name] for name in SCHEMA.names], schema=SCHEMA)
    pq.write_table(table, path, compression="zstd", row_group_size=50_000)


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def evaluate(frame: DataFrame) -> None:
    """Have Spark compute every column, and write nothing."""
    frame.write.format("noop").mode("overwrite").save()


def _decode(records: DataFrame, how: Deserialization | None) -> None:
    evaluate(records if how is None else decoded(records, how).drop("raw_key", "raw_value"))


def measure(spark: SparkSession, folder: Path, rows: int, rounds: int) -> dict[str, tuple[float, float]]:
    """For each case the seconds to decode, and to look for failures beforehand."""
    every = list(cases())
    for case in every:
        land(folder / f"{case.name}.parquet", case, rows)
    for name in ("spark.sql.legacy.codingErrorAction", "spark.sql.legacy.javaCharsets"):
        spark.conf.set(name, "true")
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for case in every:
            records = spark.read.schema(LANDING_SCHEMA).parquet(str(folder / f"{case.name}.parquet"))
            how = Deserialization(Decoder(), case.decoder, fails=True)
            plain = case.name == "bytes"
            took = seconds(partial(_decode, records, None if plain else how))
            checked = 0.0 if plain else seconds(partial(check, records, how))
            before = best.get(case.name, (took, checked))
            best[case.name] = min(before[0], took), min(before[1], checked)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    java = find_java()
    jars = spark_jars(java, Path(__file__).resolve().parents[1] / ".cache")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with SparkConnect(java=java, data=folder / "spark", memory="1g", jars=jars) as server:
            spark = SparkSession.builder.remote(server.url).create()
            best = measure(spark, folder, options.rows, options.rounds)
            spark.stop()
        plain = best["bytes"][0]
        print(f"{options.rows} records, best of {options.rounds} rounds, local[2]\n")
        print("| deserializer | decode, s | times bytes | records/s | check for failures, s |\n|---|---|---|---|---|")
        for case, (took, checked) in best.items():
            print(f"| {case} | {took:.2f} | {took / plain:.1f} | {options.rows / took:,.0f} | {checked:.2f} |")
        print("\n| framings found by the engine | s | records/s |\n|---|---|---|")
        for case, indexed in (("avro", False), ("protobuf", True)):
            path, system = str(folder / f"{case}.parquet"), fs.LocalFileSystem()
            look = partial(framings_in, system, path, "value", indexed=indexed)
            took = min(seconds(look) for _ in range(3))
            print(f"| {case} | {took:.3f} | {options.rows / took:,.0f} |")
        print("\n| one message of Protobuf | s | MiB |\n|---|---|---|")
        for kind, (took, size) in long_messages().items():
            print(f"| {kind} | {took:.2f} | {size:.0f} |")


if __name__ == "__main__":
    main()
