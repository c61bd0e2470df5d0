import json

import pytest
from orders_proto import base64_of, common, field, shop

from tidegate.schemas.inlining import SchemaError
from tidegate.schemas.message_types import layout, message_name

SHOP, COMMON = base64_of(shop()), base64_of(common())


@pytest.mark.parametrize(
    ("path", "name"),
    [((0,), "shop.Other"), ((1,), "shop.Order"), ((1, 0), "shop.Order.Line"), ((1, 0, 0), "shop.Order.Line.Tax")],
)
def test_indexes_lead_to_a_message(path: tuple[int, ...], name: str) -> None:
    assert message_name(SHOP, path) == name


@pytest.mark.parametrize("path", [(2,), (0, 0)])
def test_indexes_that_lead_nowhere_are_refused(path: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="its file has no message at"):
        message_name(SHOP, path)


def test_the_layout_has_what_the_root_needs_and_no_more() -> None:
    found = json.loads(layout(SHOP, [COMMON], "shop.Order.Line"))
    assert found == {
        "root": "shop.Order.Line",
        "messages": {
            "shop.Order.Line": [
                {"number": 1, "name": "item", "type": "string"},
                {"number": 2, "name": "tax", "type": "message", "of": "shop.Order.Line.Tax", "presence": True},
            ],
            "shop.Order.Line.Tax": [{"number": 1, "name": "rates", "type": "double", "repeated": True}],
        },
        "enums": {},
    }


def test_groups_maps_enums_and_references_are_told() -> None:
    found = json.loads(layout(SHOP, [COMMON], "shop.Order"))
    fields = {one["name"]: one for one in found["messages"]["shop.Order"]}
    assert fields["maybe"] == {"number": 43, "name": "maybe", "type": "int32", "presence": True}
    assert fields["points"] == {"number": 50, "name": "points", "type": "int32", "presence": True, "oneof": 0}
    assert (fields["by_name"]["map"], fields["by_name"]["of"]) == (True, "shop.Order.ByNameEntry")
    assert found["enums"] == {"shop.Kind": {"-2": "NEGATIVE", "1": "BIG", "0": "NONE"}}
    assert "google.protobuf.Timestamp" in found["messages"]
    assert "shop.common.Money" in found["messages"]


def test_a_field_of_an_older_syntax_tells_unset_from_default() -> None:
    file = shop()
    file.syntax = "proto2"
    found = json.loads(layout(base64_of(file), [COMMON], "shop.Other"))
    assert found["messages"]["shop.Other"] == [{"number": 1, "name": "x", "type": "int32", "presence": True}]


@pytest.mark.parametrize(
    ("text", "references", "told"),
    [
        (SHOP, [], r"type shop\.common\.Money isn't in its file"),
        ("no base64", [], "isn't a FileDescriptorProto"),
        ("AAAA", [], "isn't a FileDescriptorProto"),
        (base64_of(shop(field("again", 99, "message", ".shop.Order"))), [COMMON], r"shop\.Order holds itself"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, references: list[str], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        layout(text, references, "shop.Order")
