"""Finds out, for one delivery, by which schemas its records are to be read; the Spark job is told, and asks nobody."""

import logging
from collections.abc import Mapping, Sequence

from tidegate.model.batch import Batch
from tidegate.model.decoding import Decoder, Decoding, Framing
from tidegate.model.errors import BatchFailedError, WrongDefinitionError, message
from tidegate.model.subscription import Deserialization, Deserializer, DeserializerName
from tidegate.ports import Landing, RegisteredSchema, SchemaRegistry, SchemaType, Side
from tidegate.schemas.avro_records import other_record, recursive_record
from tidegate.schemas.inlining import SchemaError, inlined_avro, inlined_json
from tidegate.schemas.wire_format import message_path, schema_id

log = logging.getLogger(__name__)

_MOST_SCHEMAS = 500  # asked for in one delivery; only bytes that merely look framed have more
_UNREGISTERED = (
    "avro, protobuf and json-schema need a Schema Registry: name its connection as deserialization.schema-registry"
)
_TYPES: Mapping[DeserializerName, SchemaType] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}


class Unregistered:
    """The port `SchemaRegistry` of a subscription that names none."""

    def schema(self, schema_id: int, kind: SchemaType) -> RegisteredSchema | None:  # noqa: ARG002 (the port's)
        """Raises WrongDefinitionError."""
        raise WrongDefinitionError(_UNREGISTERED)

    def latest(self, subject: str, kind: SchemaType) -> RegisteredSchema | None:  # noqa: ARG002 (the port's)
        """Raises WrongDefinitionError."""
        raise WrongDefinitionError(_UNREGISTERED)


def decoding_of(
    batch: Batch, deserialization: Deserialization, *, landing: Landing, registry: SchemaRegistry
) -> Decoding | None:
    """How the batch's records are to be decoded; None where keys and values stay bytes.

    Raises UnavailableError where the registry doesn't answer: then nothing is known of any record.
    """
    if (deserialization.key.name, deserialization.value.name) == ("bytes", "bytes"):
        return None
    finder = _Finder(batch, landing, registry)
    return Decoding(
        key=finder.decoder("key", deserialization.key),
        value=finder.decoder("value", deserialization.value),
        fails=deserialization.fails,
    )


class _Finder:
    """Asks the landing for framings and the registry for their schemas."""

    def __init__(self, batch: Batch, landing: Landing, registry: SchemaRegistry) -> None:
        self._batch = batch
        self._landing = landing
        self._registry = registry

    def decoder(self, side: Side, deserializer: Deserializer) -> Decoder:
        """The decoder of one side, with what the registry has for it."""
        kind = _TYPES.get(deserializer.name)
        if kind is None:
            return Decoder(deserializer)
        counts = self._landing.framings([f.uri for f in self._batch.files], side, indexed=kind == "PROTOBUF")
        prefixes = sorted(counts, key=lambda prefix: (-counts[prefix], prefix))
        schemas = self._schemas(prefixes, kind)
        reader, read_by = self._reader(side, kind, [one for one in schemas.values() if one and one.type == kind])
        framings = [_framing(one, schemas[schema_id(one)], kind) for one in prefixes if schema_id(one) in schemas]
        try:
            text, framings = _reading(reader, framings)
        except SchemaError as error:
            raise BatchFailedError(
                message(
                    f"the records' {side}s can't be read by {read_by}: {error}",
                    self._batch,
                    "register a version that can, or decode them in the transform with deserializer bytes",
                )
            ) from error
        return Decoder(deserializer, text, read_by, tuple(sorted(framings, key=lambda one: one.prefix)))

    def _schemas(self, prefixes: Sequence[bytes], kind: SchemaType) -> dict[int, RegisteredSchema | None]:
        ids = list(dict.fromkeys(map(schema_id, prefixes)))
        if len(ids) > _MOST_SCHEMAS:
            log.warning("%d schema ids, more than are looked up: the rarest aren't (%s)", len(ids), self._batch)
        return {one: self._registry.schema(one, kind) for one in ids[:_MOST_SCHEMAS]}

    def _reader(
        self, side: Side, kind: SchemaType, written: Sequence[RegisteredSchema]
    ) -> tuple[RegisteredSchema | None, str | None]:
        """The newest of the subjects' latest versions, else of the schemas that the records were written by.

        With it, what it is called.
        """
        subjects = sorted({f"{r.topic}-{side}" for r in self._batch.ranges})
        latest = {subject: self._registry.latest(subject, kind) for subject in subjects}
        named = [(one, f"latest version of subject {of}") for of, one in latest.items() if one and one.type == kind]
        named = named or [(one, "newest among the records") for one in written]
        if not named:
            return None, None
        reader, name = max(named, key=lambda one: one[0].id)
        return reader, f"schema id {reader.id}, the {name}"


def _framing(prefix: bytes, schema: RegisteredSchema | None, kind: SchemaType) -> Framing:
    number = schema_id(prefix)
    if schema is None:
        return Framing(prefix, problem=f"schema id {number} isn't in the Schema Registry")
    if schema.type != kind:
        return Framing(prefix, problem=f"schema id {number} is of type {schema.type}, not {kind}")
    if kind == "JSON":
        return Framing(prefix)
    try:
        return Framing(prefix, schema=_message(prefix, schema) if kind == "PROTOBUF" else _alone(schema))
    except SchemaError as error:
        return Framing(prefix, problem=f"schema id {number}: {error}")


def _reading(reader: RegisteredSchema | None, framings: list[Framing]) -> tuple[str | None, list[Framing]]:
    """What the job reads by, and the framings as far as they go with it."""
    if reader is None:
        return None, framings
    if reader.type == "PROTOBUF":
        return _of_one_message(reader, framings)
    text = _alone(reader)
    if reader.type == "JSON":
        return text, framings
    if recursive := recursive_record(text):
        raise SchemaError(f"record {recursive} holds itself, and Spark has no type for values of any depth")
    return text, [_of_record(one, text) for one in framings]


def _of_record(framing: Framing, reader: str) -> Framing:
    """A framing of Avro, as far as its records are the reader's."""
    why = framing.schema and other_record(framing.schema, reader)
    return Framing(framing.prefix, problem=f"schema id {schema_id(framing.prefix)} {why}") if why else framing


def _of_one_message(reader: RegisteredSchema, framings: Sequence[Framing]) -> tuple[str, list[Framing]]:
    """The layout that all records are read by, and the framings, the most frequent first, as far as they are of it.

    It is of the first message in the reader's file if any record is of that one, else of the one that most are of.
    """
    from tidegate.schemas.message_types import layout, message_name  # noqa: PLC0415 (Protobuf's own modules take their time)

    first = message_name(reader.text, (0,))
    found = [one.schema for one in framings if one.schema is not None]
    root = first if first in found else next(iter(found), first)
    text = layout(reader.text, [one.text for one in reader.references], root)
    return text, [one if one.schema in {None, root} else _other(one, root) for one in framings]


def _other(framing: Framing, root: str) -> Framing:
    return Framing(framing.prefix, problem=f"it is of message {framing.schema}, and the batch is read as {root}")


def _message(prefix: bytes, schema: RegisteredSchema) -> str:
    """The name of the message that a framing of Protobuf means."""
    from tidegate.schemas.message_types import message_name  # noqa: PLC0415 (see above)

    return message_name(schema.text, message_path(prefix))


def _alone(schema: RegisteredSchema) -> str:
    references = [(one.name, one.text) for one in schema.references]
    return inlined_json(schema.text, references) if schema.type == "JSON" else inlined_avro(schema.text, references)
