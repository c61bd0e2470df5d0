"""How one column of bytes is decoded, in two projections, so that what the first one costs is paid once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)


class DeserializationError(Exception):
    """Records can't be decoded, or not by these deserializers: mend them, the schema or the definition."""


class UnusableSchemaError(DeserializationError):
    """No record can be decoded by what the definition or the registry says, whatever is in it: correct that."""


@dataclass(frozen=True)
class Framing:
    """The bytes before a payload in Confluent's wire format, and the schema that they mean, or why there is none."""

    prefix: bytes
    schema: str | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Decoder:
    """One side of the manifest's `deserialization`: which deserializer decodes the keys or the values, and by what.

    `read_by` is what the reader's schema is called in reasons.
    """

    name: str = "bytes"
    encoding: str = "UTF-8"
    schema: str | None = None
    reader: str | None = None
    read_by: str = "the reader's schema"
    framings: tuple[Framing, ...] = ()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "Decoder":
        """The decoder that the manifest describes; KeyError, TypeError or ValueError where it describes none."""
        return cls(
            name=found["name"],
            encoding=found.get("encoding") or "UTF-8",
            schema=found.get("schema"),
            reader=found.get("reader"),
            read_by=found.get("read_by") or cls.read_by,
            framings=tuple(
                Framing(bytes.fromhex(one["prefix"]), one.get("schema"), one.get("problem"))
                for one in found.get("framings", ())
            ),
        )


@dataclass(frozen=True)
class Step:
    """Decoding as column expressions.

    `parsed` is made of the bytes; `value` and `reason` are made of the bytes and what was parsed. `reason` is null
    where the bytes could be decoded. Null bytes never reach any of them.
    """

    parsed: Column
    value: Callable[[Column, Column], Column]
    reason: Callable[[Column, Column], Column]


def first_reason(*judgements: tuple[Column, Column | str]) -> Column:
    """The reason of the first condition that holds, null where none does."""
    return F.coalesce(
        *(F.when(condition, F.lit(why) if isinstance(why, str) else why) for condition, why in judgements),
        F.lit(None).cast("string"),
    )
