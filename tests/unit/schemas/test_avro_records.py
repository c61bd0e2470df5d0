import json
from typing import Any

import pytest

from tidegate.schemas.avro_records import other_record, recursive_record


def record(name: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ID, NAME = field("id", "long"), field("name", "string")
AMOUNT = field("amount", ["null", "long"], default=None)
USER, ORDER = record("u.User", ID, NAME), record("o.Order", ID, AMOUNT)


def told(writer: Any, reader: Any) -> str | None:
    return other_record(json.dumps(writer), json.dumps(reader))


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (USER, USER),
        (USER, record("o.User", ID)),
        (USER, record("User", ID, namespace="o")),
        (USER, record("o.Order", ID, aliases=["u.User"])),
        (record("o.User", ID), record("o.Order", ID, aliases=["User"])),
        ([USER, ORDER], [ORDER, USER]),
        (USER, [ORDER, USER]),
        ([USER, ORDER], [record("x.Order", ID), record("x.User", ID)]),
        ("long", "double"),
        (USER, "string"),
        ({"type": "array", "items": USER}, {"type": "map", "values": ORDER}),
    ],
)
def test_records_of_the_same_name_or_of_an_alias_are_the_readers(writer: Any, reader: Any) -> None:
    assert told(writer, reader) is None


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (USER, ORDER),
        (USER, record("o.Order", ID, aliases=["User"])),
        (["null", USER], ORDER),
        (USER, ["null", ORDER]),
        ([ORDER, USER], ORDER),
        ([ORDER, USER], ["null", ORDER]),
    ],
)
def test_a_record_of_another_name_is_none_of_the_readers(writer: Any, reader: Any) -> None:
    assert told(writer, reader) == "is of record u.User, and the batch is read as o.Order"


NOTE = field("note", "string")


@pytest.mark.parametrize("reader", [["null", ORDER], ORDER])
def test_a_branch_that_lacks_what_the_reader_needs_is_left_to_each_record(reader: Any) -> None:
    assert told([ORDER, record("u.Note", NOTE)], reader) is None


def test_a_record_that_lacks_what_the_reader_needs_is_none_of_the_readers_either() -> None:
    assert told(record("u.Note", NOTE), ORDER) == "is of record u.Note, and the batch is read as o.Order"


@pytest.mark.parametrize(
    "around",
    [
        lambda one: one,
        lambda one: ["null", one],
        lambda one: {"type": "array", "items": one},
        lambda one: {"type": "map", "values": ["null", one]},
        lambda one: {"type": one},
    ],
)
def test_records_within_records_are_looked_at(around: Any) -> None:
    def order(inner: Any) -> dict[str, Any]:
        return record("o.Order", field("by", record("By", field("whom", around(inner)))))

    assert told(order(USER), order(USER)) is None
    assert told(order(USER), order(record("o.User", ID))) is None
    found = told(order(USER), order(ORDER | {"name": "o.Person"}))
    assert found == "has a record u.User in by.whom, and the batch is read with o.Person there"


def test_fields_are_the_readers_by_their_aliases_and_those_that_it_lacks_do_not_count() -> None:
    writer = record("o.Order", field("buyer", USER), field("gone", record("o.Gone", ID)))
    reader = record("o.Order", field("customer", record("c.Customer", ID), aliases=["buyer"]))
    assert told(writer, reader) == "has a record u.User in customer, and the batch is read with c.Customer there"


def test_types_are_found_by_their_names_in_their_namespaces() -> None:
    def order(name: str) -> dict[str, Any]:
        return record("Order", field("first", record(name, ID)), field("rest", name), namespace="o")

    assert told(order("Line"), order("Line")) is None
    reader = record("Order", field("rest", record("Row", ID)), namespace="o")
    assert told(order("Line"), reader) == "has a record o.Line in rest, and the batch is read with o.Row there"


def test_a_record_that_holds_itself_is_looked_at_once() -> None:
    tree = record("Tree", ID, field("next", ["null", "Tree"]))
    assert told(tree, tree | {"doc": "another text"}) is None


@pytest.mark.parametrize(
    "schema",
    [
        record("w.Tree", field("next", ["null", "Tree"])),
        record("w.Tree", field("next", {"type": "array", "items": {"type": "map", "values": "w.Tree"}})),
        [record("w.Tree", field("twig", record("Twig", field("of", "Tree"))))],
        record("w.Wood", field("first", record("Tree", field("next", ["null", "Tree"])))),
    ],
)
def test_a_record_that_holds_itself_is_named(schema: Any) -> None:
    assert recursive_record(json.dumps(schema)) == "w.Tree"


@pytest.mark.parametrize(
    "schema",
    [
        "long",
        record("Order", field("first", record("Line", ID)), field("second", "Line")),
        record("o.Order", field("first", record("Line", ID)), field("second", "o.Line"), field("date", "Order.Date")),
        record("Order", field("kind", {"type": "enum", "name": "Kind", "symbols": ["A"]}), field("other", "Kind")),
    ],
)
def test_a_type_that_is_only_named_twice_holds_nothing(schema: Any) -> None:
    assert recursive_record(json.dumps(schema)) is None
