"""Protobuf's message types as plain data, so that whoever reads messages needs neither compiler nor descriptors.

A layout is `{"root": name, "messages": {name: [field, ...]}, "enums": {name: {number: symbol}}}`, of all that the root
needs. A field has number, name, type (`int32`, `message`, ...), of (the message's or enum's name), and, where they
hold, repeated, map, presence (unset is told from the default), oneof (the number of the group that it belongs to).
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)

from tidegate.schemas.inlining import SchemaError

_WELL_KNOWN = (
    *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2),
    *(timestamp_pb2, type_pb2, wrappers_pb2),
)
_REPEATED = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_TYPE = "TYPE_"

T = TypeVar("T")
# Protobuf's descriptors, whose classes have no types
File: TypeAlias = Any
Message: TypeAlias = Any
Enum: TypeAlias = Any
Field: TypeAlias = Any


def message_name(text: str, path: Sequence[int]) -> str:
    """The full name of the message that indexes lead to in a file, a FileDescriptorProto in base64.

    Raises SchemaError where the text is none, or has no such message.
    """
    file = _file(text)
    names, messages = [file.package] if file.package else [], file.message_type
    for index in path:
        if index >= len(messages):
            raise SchemaError(f"its file has no message at {'.'.join(map(str, path))}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def layout(text: str, references: Sequence[str], root: str) -> str:
    """The layout of a message of a file and what it refers to, as JSON.

    Raises SchemaError where a type isn't in any of the files, or a message holds itself: Spark has no type for it.
    """
    types = _Types([_file(one) for one in (text, *references)])
    messages: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    types.collect(root, (), messages, enums)
    return json.dumps({"root": root, "messages": messages, "enums": enums})


class _Types:
    """All message and enum types of some files, and of those that Protobuf brings itself, by full name."""

    def __init__(self, files: Sequence[File]) -> None:
        self._messages: dict[str, tuple[Message, bool]] = {}
        self._enums: dict[str, Enum] = {}
        brought = [
            descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb) for module in _WELL_KNOWN
        ]
        for file in (*brought, *files):
            prefix = f"{file.package}." if file.package else ""
            for name, message in _nested(prefix, file.message_type):
                self._messages[name] = message, file.syntax == "proto3"
                self._enums |= {f"{name}.{enum.name}": enum for enum in message.enum_type}
            self._enums |= {f"{prefix}{enum.name}": enum for enum in file.enum_type}

    def collect(self, name: str, above: tuple[str, ...], messages: dict[str, Any], enums: dict[str, Any]) -> None:
        if name in above:
            raise SchemaError(f"message {name} holds itself, and Spark has no type for values of any depth")
        message, proto3 = _known(name, self._messages)
        messages[name] = [self._field(field, proto3=proto3) for field in message.field]
        for field in message.field:
            of = field.type_name.removeprefix(".")
            if field.type == _MESSAGE:
                self.collect(of, (*above, name), messages, enums)
            elif of:
                values = _known(of, self._enums).value
                enums[of] = {str(value.number): value.name for value in reversed(values)}

    def _field(self, field: Field, *, proto3: bool) -> dict[str, Any]:
        of = field.type_name.removeprefix(".")
        repeated = field.label == _REPEATED
        grouped = field.HasField("oneof_index")
        told: dict[str, Any] = {
            "number": field.number,
            "name": field.name,
            "type": descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix(_TYPE).lower(),
            "of": of or None,
            "repeated": repeated or None,
            "map": (repeated and field.type == _MESSAGE and _known(of, self._messages)[0].options.map_entry) or None,
            "presence": (not repeated and (grouped or not proto3 or field.type == _MESSAGE)) or None,
            "oneof": field.oneof_index if grouped and not field.proto3_optional else None,
        }
        return {name: value for name, value in told.items() if value is not None}


def _nested(prefix: str, messages: Sequence[Message]) -> Iterator[tuple[str, Message]]:
    for message in messages:
        name = f"{prefix}{message.name}"
        yield name, message
        yield from _nested(f"{name}.", message.nested_type)


def _known(name: str, types: Mapping[str, T]) -> T:
    if name not in types:
        raise SchemaError(f"type {name} isn't in its file, nor in those that it refers to")
    return types[name]


def _file(text: str) -> File:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except Exception:  # noqa: BLE001 (base64's and Protobuf's errors share nothing)
        raise SchemaError("its text isn't a FileDescriptorProto in base64") from None
