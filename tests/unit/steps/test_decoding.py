import json
from dataclasses import replace
from typing import Any

import pytest
from orders_proto import base64_of, common, shop
from world import World, planned

from tidegate.model.batch import State
from tidegate.model.decoding import Decoding
from tidegate.model.errors import BatchFailedError, UnavailableError, WrongDefinitionError
from tidegate.model.subscription import Deserialization, Deserializer
from tidegate.ports import Reference
from tidegate.runtime.pipeline import Pipeline
from tidegate.schemas import lookup as decoding_step
from tidegate.testing.registry import MemoryRegistry
from tidegate.testing.topics import Record

AVRO = Deserialization(value=Deserializer("avro"), registry="registry")
LONG, STRING = json.dumps("long"), json.dumps("string")


def framed(schema_id: int, rest: bytes = b"x") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + rest


def delivered(deserialization: Deserialization, registry: MemoryRegistry, *records: Record) -> Decoding | None:
    """What the manifest of a batch of these records says."""
    world = World()
    world.topics.produce("orders", *records, partition=0)
    pipeline = replace_in(world.pipeline(), deserialization, registry)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    (manifest,) = world.processor.delivered
    return manifest.decoding


def replace_in(pipeline: Pipeline, deserialization: Deserialization, registry: Any) -> Pipeline:
    subscription = replace(pipeline.subscription, deserialization=deserialization)
    return replace(pipeline, subscription=subscription, registry=registry)


def test_bytes_need_no_decoding() -> None:
    assert delivered(Deserialization(), MemoryRegistry(), Record(framed(1))) is None


def test_what_needs_no_registry_asks_none() -> None:
    registry = MemoryRegistry()
    asked = Deserialization(Deserializer("long"), Deserializer("json", schema="a int"), fails=False)
    decoding = delivered(asked, registry, Record(b"{}"))
    assert decoding is not None
    assert registry.asked == []
    assert decoding.to_json() == {
        "fails": False,
        "key": {"name": "long", "encoding": "UTF-8", "schema": None, "reader": None, "read_by": None, "framings": []},
        "value": {
            "name": "json",
            "encoding": "UTF-8",
            "schema": "a int",
            "reader": None,
            "read_by": None,
            "framings": [],
        },
    }


def test_each_schema_id_is_asked_for_once_and_the_latest_version_reads() -> None:
    registry = MemoryRegistry()
    first = registry.register("orders-value", "AVRO", LONG)
    last = registry.register("orders-value", "AVRO", STRING)
    records = [Record(framed(number)) for number in (first, last, first)]
    decoding = delivered(AVRO, registry, *records, Record(None), Record(b"plain"))
    assert decoding is not None
    assert decoding.value.reader == STRING
    assert decoding.value.read_by == "schema id 2, the latest version of subject orders-value"
    assert [(one.prefix, one.schema) for one in decoding.value.framings] == [
        (framed(first, b""), LONG),
        (framed(last, b""), STRING),
    ]
    assert sorted(map(str, registry.asked)) == ["1", "2", "orders-value"]


def test_without_a_subject_the_newest_schema_of_the_batch_reads() -> None:
    registry = MemoryRegistry()
    registry.register("by hand", "AVRO", LONG)
    registry.register("by hand", "AVRO", STRING)
    registry.register("by hand", "AVRO", json.dumps("int"))
    decoding = delivered(AVRO, registry, Record(framed(2)), Record(framed(1)))
    assert decoding is not None
    assert decoding.value.reader == STRING
    assert decoding.value.read_by == "schema id 2, the newest among the records"


def test_keys_have_a_subject_of_their_own() -> None:
    registry = MemoryRegistry()
    registry.register("orders-key", "AVRO", LONG)
    keys = Deserialization(key=Deserializer("avro"), registry="registry")
    decoding = delivered(keys, registry, Record(b"v", key=framed(1)))
    assert decoding is not None
    assert (decoding.key.reader, decoding.value.reader) == (LONG, None)


def test_ids_that_are_no_use_say_why() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", "AVRO", LONG)
    registry.register("others", "JSON", "{}")
    registry.register("broken", "AVRO", "{")
    decoding = delivered(AVRO, registry, *(Record(framed(number)) for number in (1, 2, 3, 77)))
    assert decoding is not None
    assert [one.problem for one in decoding.value.framings][:2] == [None, "schema id 2 is of type JSON, not AVRO"]
    broken, missing = (str(one.problem) for one in decoding.value.framings[2:])
    assert broken.startswith("schema id 3: a schema isn't JSON")
    assert missing == "schema id 77 isn't in the Schema Registry"


def test_avro_records_of_another_name_than_the_readers_are_not_read_as_its() -> None:
    registry = MemoryRegistry()
    identity = {"name": "id", "type": "long"}
    for name, fields in {"u.User": [identity, {"name": "name", "type": "string"}], "o.Order": [identity]}.items():
        schema = {"type": "record", "name": name, "fields": fields}
        registry.register("orders-value", "AVRO", json.dumps(schema))
    decoding = delivered(AVRO, registry, Record(framed(1)), Record(framed(2)))
    assert decoding is not None
    assert [(one.schema is None, one.problem) for one in decoding.value.framings] == [
        (True, "schema id 1 is of record u.User, and the batch is read as o.Order"),
        (False, None),
    ]


def test_bytes_that_merely_look_framed_are_not_looked_up_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_step, "_MOST_SCHEMAS", 50)
    registry = MemoryRegistry()
    registry.register("orders-value", "AVRO", LONG)
    strays = [Record(framed(10_000 + number)) for number in range(60)]
    decoding = delivered(AVRO, registry, *strays, Record(framed(1)), Record(framed(1)))
    assert decoding is not None
    assert len(registry.asked) == 51
    assert framed(1, b"") in {one.prefix for one in decoding.value.framings}


PROTOBUF = Deserialization(value=Deserializer("protobuf"), registry="registry")
SHOP, COMMON = base64_of(shop()), base64_of(common())
OTHER, ORDER, LINE = b"\x00", b"\x02\x02", b"\x04\x02\x00"


def test_protobuf_is_read_as_one_message_of_the_latest_file() -> None:
    registry = MemoryRegistry()
    references = [Reference("common.proto", COMMON)]
    registry.register("orders-value", "PROTOBUF", SHOP, references)
    registry.register("orders-value", "PROTOBUF", SHOP, references)
    strays = [Record(framed(2, b"\x12")), Record(framed(1, LINE))]
    decoding = delivered(PROTOBUF, registry, *[Record(framed(1, ORDER + b"rest")), Record(framed(2, ORDER))], *strays)
    assert decoding is not None
    assert json.loads(str(decoding.value.reader))["root"] == "shop.Order"
    assert [(one.prefix, one.schema, one.problem) for one in decoding.value.framings] == [
        (framed(1, ORDER), "shop.Order", None),
        (framed(1, LINE), None, "it is of message shop.Order.Line, and the batch is read as shop.Order"),
        (framed(2, ORDER), "shop.Order", None),
    ]


def test_protobuf_of_the_first_message_is_read_as_that_one() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", "PROTOBUF", SHOP, [Reference("common.proto", COMMON)])
    decoding = delivered(PROTOBUF, registry, *[Record(framed(1, ORDER))] * 3, Record(framed(1, OTHER)))
    assert decoding is not None
    assert json.loads(str(decoding.value.reader))["root"] == "shop.Other"
    bare = delivered(PROTOBUF, registry, Record(None))
    assert bare is not None
    assert json.loads(str(bare.value.reader))["root"] == "shop.Other"


def test_a_reader_that_cannot_be_used_fails_the_batch_and_says_why() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", "PROTOBUF", SHOP)
    with pytest.raises(BatchFailedError, match="values can't be read by schema id 1, the latest version of ") as raised:
        delivered(PROTOBUF, registry, Record(framed(1, ORDER)))
    assert "subject orders-value: type shop.common.Money isn't" in str(raised.value)


TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "woods",
    "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Tree"], "default": None}],
}


def test_an_avro_reader_that_holds_itself_fails_the_batch_and_says_why() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", "AVRO", json.dumps(TREE))
    with pytest.raises(BatchFailedError, match="values can't be read by schema id 1, ") as raised:
        delivered(AVRO, registry, Record(framed(1)))
    assert ": record woods.Tree holds itself, and Spark has no type for values of any depth (" in str(raised.value)


def test_an_avro_writer_that_holds_itself_is_read_by_a_reader_that_does_not() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", "AVRO", json.dumps(TREE))
    registry.register("orders-value", "AVRO", json.dumps(TREE | {"fields": TREE["fields"][:1]}))
    decoding = delivered(AVRO, registry, Record(framed(1)))
    assert decoding is not None
    assert [one.problem for one in decoding.value.framings] == [None]


def test_a_registry_that_is_away_costs_no_delivery_and_rejects_nothing() -> None:
    world = World()
    world.topics.produce("orders", Record(framed(1)), partition=0)
    registry = MemoryRegistry()
    registry.register("orders-value", "AVRO", LONG)
    registry.reachable = False
    pipeline = replace_in(world.pipeline(), replace(AVRO, fails=False), registry)
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(UnavailableError):
        pipeline.process(batch.id)
    assert (world.ledger.batch(batch.id).state, world.ledger.deliveries(batch.id)) == (State.LANDED, 0)
    assert world.processor.delivered == []
    registry.reachable = True
    processed = pipeline.process(batch.id)
    assert processed is not None
    assert processed.state is State.PROCESSED


def test_a_subscription_that_names_no_registry_is_told_to() -> None:
    world = World()
    world.produce(1)
    pipeline = world.pipeline()
    pipeline = replace(
        pipeline, subscription=replace(pipeline.subscription, deserialization=replace(AVRO, registry=None))
    )
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(WrongDefinitionError, match=r"deserialization\.schema-registry"):
        pipeline.process(batch.id)
