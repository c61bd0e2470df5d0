"""How a delivery's records are to be decoded, as the manifest tells the Spark job: schemas as text, no registry."""

from dataclasses import dataclass
from typing import Any

from tidegate.model.subscription import Deserializer


@dataclass(frozen=True, slots=True)
class Framing:
    """A prefix in Confluent's wire format that records of the batch have, and what the Schema Registry said of it.

    Either `schema`, the writer's schema as the decoder needs it (Avro's text, the name of Protobuf's message), or
    `problem`, why such records can't be decoded. JSON Schema's records are read by the reader's alone, so there both
    may be None.
    """

    prefix: bytes
    schema: str | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, str]:
        """The framing as it stands in the manifest, the prefix in hexadecimal."""
        told = {"prefix": self.prefix.hex(), "schema": self.schema, "problem": self.problem}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Decoder:
    """The deserializer of one side, and for a registered one the reader's schema and the framings of the batch.

    The reader's schema is Avro's or JSON Schema's text, with what it refers to inside, or a Protobuf message's layout;
    `read_by` says in words where it is in the registry.
    """

    deserializer: Deserializer
    reader: str | None = None
    read_by: str | None = None
    framings: tuple[Framing, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The decoder as it stands in the manifest."""
        return {
            "name": self.deserializer.name,
            "encoding": self.deserializer.encoding,
            "schema": self.deserializer.schema,
            "reader": self.reader,
            "read_by": self.read_by,
            "framings": [framing.to_json() for framing in self.framings],
        }


@dataclass(frozen=True, slots=True)
class Decoding:
    """Both sides' decoders, and whether a record that can't be decoded fails the batch."""

    key: Decoder
    value: Decoder
    fails: bool

    def to_json(self) -> dict[str, Any]:
        """The manifest's section `deserialization`."""
        return {"fails": self.fails, "key": self.key.to_json(), "value": self.value.to_json()}
