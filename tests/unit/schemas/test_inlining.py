import json

import pytest

from tidegate.schemas.inlining import SchemaError, inlined_avro, inlined_json

ADDRESS = {"type": "record", "name": "Address", "namespace": "post", "fields": [{"name": "city", "type": "string"}]}
PERSON = {
    "type": "record",
    "name": "Person",
    "namespace": "people",
    "fields": [
        {"name": "home", "type": "post.Address"},
        {"name": "work", "type": ["null", "post.Address"]},
        {"name": "others", "type": {"type": "array", "items": {"type": "map", "values": "post.Address"}}},
    ],
}


def test_a_referenced_avro_type_is_defined_where_it_is_named_first() -> None:
    found = json.loads(inlined_avro(json.dumps(PERSON), [("post.Address", json.dumps(ADDRESS))]))
    home, work, others = (field["type"] for field in found["fields"])
    assert home == ADDRESS
    assert work == ["null", "post.Address"]
    assert others == PERSON["fields"][2]["type"]  # type: ignore[index]


def test_references_of_references_are_followed() -> None:
    team = {"type": "record", "name": "Team", "fields": [{"name": "head", "type": "people.Person"}]}
    references = [("post.Address", json.dumps(ADDRESS)), ("people.Person", json.dumps(PERSON))]
    head = json.loads(inlined_avro(json.dumps(team), references))["fields"][0]["type"]
    assert (head["name"], head["namespace"]) == ("Person", "people")
    assert head["fields"][0]["type"] == ADDRESS


def test_names_are_looked_up_in_their_namespace_and_types_without_one_keep_none() -> None:
    inner = {"type": "enum", "name": "Kind", "namespace": "people", "symbols": ["A"]}
    outer = {
        "type": "record",
        "name": "people.Person",
        "fields": [{"name": "kind", "type": "Kind"}, {"name": "place", "type": "Bare"}],
    }
    bare = {"type": "fixed", "name": "Bare", "size": 2}
    found = json.loads(
        inlined_avro(json.dumps(outer), [("people.Kind", json.dumps(inner)), ("Bare", json.dumps(bare))])
    )
    assert found["fields"][0]["type"] == inner
    assert found["fields"][1]["type"] == bare | {"namespace": ""}


def test_a_schema_that_names_itself_is_left_alone() -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
    assert json.loads(inlined_avro(json.dumps(tree), []))["fields"] == tree["fields"]


def test_json_references_lead_into_the_whole() -> None:
    address = {
        "$id": "https://example.org/address",
        "properties": {"city": {"$ref": "#/$defs/city"}},
        "$defs": {"city": {}},
    }
    person = {
        "properties": {
            "home": {"$ref": "post/address.json"},
            "work": {"$ref": "https://example.org/address#/properties/city"},
            "self": {"$ref": "#/properties/home"},
        }
    }
    found = json.loads(inlined_json(json.dumps(person), [("post/address.json", json.dumps(address))]))
    assert {name: one["$ref"] for name, one in found["properties"].items()} == {
        "home": "#/tidegate.references/post~1address.json",
        "work": "#/tidegate.references/post~1address.json/properties/city",
        "self": "#/properties/home",
    }
    copy = found["tidegate.references"]["post/address.json"]
    assert copy["properties"]["city"]["$ref"] == "#/tidegate.references/post~1address.json/$defs/city"


@pytest.mark.parametrize("inlined", [inlined_avro, inlined_json])
def test_what_is_no_json_is_refused(inlined) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SchemaError, match="isn't JSON"):
        inlined("{", [])
