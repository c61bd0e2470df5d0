"""The Schema Registry."""

from dataclasses import dataclass
from typing import Literal, Protocol

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one refers to, under the name that it is referred to by."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a Schema Registry, with all that it refers to, directly or not, what is needed first coming first.

    The text is JSON for Avro and JSON Schema, for Protobuf the FileDescriptorProto in base64.
    """

    id: int
    type: str
    text: str
    references: tuple[Reference, ...] = ()


class SchemaRegistry(Protocol):
    """Where Confluent's serializers register schemas.

    UnavailableError where it doesn't answer, or only with an error of its own; WrongDefinitionError where it refuses
    the credentials, or what answers is no Schema Registry.
    """

    def schema(self, schema_id: int, kind: SchemaType) -> RegisteredSchema | None:
        """The schema of this id, whatever its type; None if there is none. `kind` is the type that is expected."""
        ...

    def latest(self, subject: str, kind: SchemaType) -> RegisteredSchema | None:
        """The latest version of a subject; None if there is no such subject."""
        ...
