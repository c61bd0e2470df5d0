"""Protobuf files for tests, as a compiler would describe them, and the classes of their messages.

shop.proto has messages Order and, nested in it, Line and Line.Tax; every kind of field is in Order. common.proto, to
which it refers, has Money.
"""

import base64
from typing import Any

from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("bool", "float", "double", "string", "bytes"),
)
_TIMESTAMP = "google/protobuf/timestamp.proto"


def field(name: str, number: int, kind: str, of: str | None = None, **more: Any) -> Any:
    repeated = more.pop("repeated", False)
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    made = Field(name=name, number=number, type=Field.Type.Value(f"TYPE_{kind.upper()}"), label=label, **more)
    if of:
        made.type_name = of
    return made


def common() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="common.proto", package="shop.common", syntax="proto3")
    file.message_type.add(name="Money", field=[field("units", 1, "int64"), field("currency", 2, "string")])
    return file


def shop(*more: Any) -> Any:
    """The file; `more` are further fields of Order."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["common.proto", _TIMESTAMP])
    file.enum_type.add(name="Kind", value=[_value("NONE", 0), _value("BIG", 1), _value("NEGATIVE", -2)])
    file.message_type.add(name="Other", field=[field("x", 1, "int32")])
    order = file.message_type.add(name="Order")
    fields = [field(f"a_{kind}", at, kind) for at, kind in enumerate(SCALARS, 1)]
    fields += [field(f"some_{kind}", at, kind, repeated=True) for at, kind in enumerate(SCALARS, 21)]
    fields += [
        field("kind", 41, "enum", ".shop.Kind"),
        field("kinds", 42, "enum", ".shop.Kind", repeated=True),
        field("maybe", 43, "int32", proto3_optional=True, oneof_index=1),
        field("price", 44, "message", ".shop.common.Money"),
        field("lines", 45, "message", ".shop.Order.Line", repeated=True),
        field("by_name", 46, "message", ".shop.Order.ByNameEntry", repeated=True),
        field("by_number", 47, "message", ".shop.Order.ByNumberEntry", repeated=True),
        field("card", 48, "string", oneof_index=0),
        field("cash", 49, "message", ".shop.common.Money", oneof_index=0),
        field("points", 50, "int32", oneof_index=0),
        field("at", 51, "message", ".google.protobuf.Timestamp"),
        field("far", 5000, "bool"),
    ]
    order.field.extend([*fields, *more])
    order.oneof_decl.add(name="paid")
    order.oneof_decl.add(name="_maybe")
    line = order.nested_type.add(
        name="Line", field=[field("item", 1, "string"), field("tax", 2, "message", ".shop.Order.Line.Tax")]
    )
    line.nested_type.add(name="Tax", field=[field("rates", 1, "double", repeated=True)])
    order.nested_type.add(
        name="ByNameEntry", field=[field("key", 1, "string"), field("value", 2, "message", ".shop.common.Money")]
    ).options.map_entry = True
    order.nested_type.add(
        name="ByNumberEntry", field=[field("key", 1, "int32"), field("value", 2, "int64")]
    ).options.map_entry = True
    return file


def _value(name: str, number: int) -> Any:
    return descriptor_pb2.EnumValueDescriptorProto(name=name, number=number)


def message_class(name: str, *files: Any) -> Any:
    """The class of a message of these files."""
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def base64_of(file: Any) -> str:
    """The file as a registry gives it when it is asked for the `serialized` form."""
    return base64.b64encode(file.SerializeToString()).decode()
