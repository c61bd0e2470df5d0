"""Confluent's wire format: a prefix that names the writer's schema, then the payload.

The manifest has every prefix of the batch, with what the Schema Registry said of it; nobody here asks a registry.
Protobuf's prefixes have message indexes after the schema id.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.deserializers.step import Decoder, Framing, Step, first_reason

_ID_BYTES = 5
_UNKNOWN = "the batch's manifest has no schema for its schema id %s"
_UNKNOWN_INDEXED = f"{_UNKNOWN} and the message indexes after it, which may be cut short"


def begins_with(raw: Column, prefix: bytes) -> Column:
    """Whether the bytes begin with these."""
    return F.substr(raw, F.lit(1), F.lit(len(prefix))) == F.lit(prefix)


def payload(raw: Column, prefix: bytes) -> Column:
    """The bytes after the prefix."""
    return F.substr(raw, F.lit(len(prefix) + 1), F.octet_length(raw))


def schema_id(raw: Column) -> Column:
    """The id that the bytes name, as text."""
    return F.conv(F.hex(F.substr(raw, F.lit(2), F.lit(4))), 16, 10)


def by_framing(
    raw: Column, framings: Sequence[Framing], decode: Callable[[Framing], Column], nothing: Column
) -> Column:
    """What `decode` makes of the bytes for the framing that they begin with; `nothing` where they have none of them."""
    decoded = F.when(F.lit(col=False), nothing)
    for framing in framings:
        decoded = decoded.when(begins_with(raw, framing.prefix), decode(framing))
    return decoded.otherwise(nothing)


def not_framed(raw: Column, decoder: Decoder) -> Column:
    """Why the bytes have no framing that is of use, or null."""
    problems = [one for one in decoder.framings if one.problem is not None]
    known = [begins_with(raw, one.prefix) for one in decoder.framings]
    magic = F.substr(raw, F.lit(1), F.lit(1)) == F.lit(b"\x00")
    unknown = ~F.coalesce(*(F.when(one, F.lit(col=True)) for one in known), F.lit(col=False))
    missing = F.format_string(_UNKNOWN_INDEXED if decoder.name == "protobuf" else _UNKNOWN, schema_id(raw))
    return first_reason(
        (
            (F.octet_length(raw) < _ID_BYTES) | ~magic,
            "it isn't in Confluent's wire format, which begins with a zero and a schema id of 4 bytes",
        ),
        *((begins_with(raw, one.prefix), str(one.problem)) for one in problems),
        (unknown, missing),
    )


def unreadable(decoder: Decoder) -> Step:
    """The step where neither the registry nor the records say by which schema to read: only null can be decoded."""

    def reason(raw: Column, _: Column) -> Column:
        return F.coalesce(not_framed(raw, decoder), F.lit("there is no schema to read it by"))

    return Step(F.lit(None).cast("binary"), lambda _, parsed: parsed, reason)
