"""Texts, in any charset that Java knows, and UUIDs as texts.

Java's StringDeserializer replaces what it can't decode and so damages it in silence; here that is a failure.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.deserializers.step import Step, first_reason

CODING = {"spark.sql.legacy.codingErrorAction": "true", "spark.sql.legacy.javaCharsets": "true"}
"""Settings of the session under which `decode` marks what it can't decode, in place of failing the whole query, and
takes the charsets that Java has."""

_REPLACEMENT = "\ufffd"
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\\z"


def is_utf8(encoding: str) -> bool:
    """Whether a charset's name means UTF-8."""
    return encoding.upper().replace("_", "-") in {"UTF-8", "UTF8"}


def text(raw: Column, encoding: str) -> Column:
    """The bytes as a text, null where they are none in this charset."""
    if is_utf8(encoding):
        return F.try_validate_utf8(raw.cast("string"))
    return F.decode(raw, encoding)


def string(raw: Column, encoding: str) -> Step:
    """A text; bytes that the charset doesn't have are a failure."""
    return Step(text(raw, encoding), lambda _, parsed: parsed, lambda raw, parsed: not_text(raw, parsed, encoding))


def not_text(raw: Column, parsed: Column, encoding: str) -> Column:
    """Why the bytes are no text, or null. A replacement character counts if it doesn't lead back to the bytes."""
    damaged = parsed.isNull()
    if not is_utf8(encoding):
        marked = F.contains(parsed, F.lit(_REPLACEMENT))
        damaged = damaged | (marked & ~F.encode(parsed, encoding).eqNullSafe(raw))
    return first_reason((damaged, f"it isn't {encoding}"))


def uuid(raw: Column, encoding: str) -> Step:
    """A UUID of 36 characters, in lower case, as Java's UUID prints it."""

    def reason(raw: Column, parsed: Column) -> Column:
        wrong = ~F.coalesce(parsed.rlike(_UUID), F.lit(col=False))
        return first_reason(
            (not_text(raw, parsed, encoding).isNotNull(), f"it isn't {encoding}"),
            (wrong, "it isn't a UUID of 36 characters"),
        )

    return Step(text(raw, encoding), lambda _, parsed: F.lower(parsed), reason)
