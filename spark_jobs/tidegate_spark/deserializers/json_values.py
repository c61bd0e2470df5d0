"""JSON: each value is one whole JSON document of the type that the schema gives, or a failure.

Spark reads the first document of a text, ignores what follows it, and gives null for what doesn't fit. So the text
is read as the only item of an array in an object, which it must leave whole, with the column for what is malformed.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from tidegate_spark.deserializers.json_fields import misfits
from tidegate_spark.deserializers.json_schema import type_of
from tidegate_spark.deserializers.step import Step, first_reason
from tidegate_spark.deserializers.texts import not_text, text

_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
# Only a text that closes the array, and opens another as a field's, could come out whole from in there and not alone.
_BREAKS_OUT = r"\]\s*,\s*\""


def schema_type(schema: str | None) -> DataType | None:
    """The type that a definition's schema (DDL or JSON Schema) gives; None where there is none."""
    if not schema:
        return None
    return type_of(schema) if schema.lstrip().startswith("{") else DataType.fromDDL(schema)


def json_value(raw: Column, encoding: str, kind: DataType | None) -> Step:
    """A JSON document as a value of this type; without a type, as its own text."""
    item = kind or StringType()
    whole = StructType([StructField("value", ArrayType(item)), StructField("corrupt", StringType())])
    alone = StructType([StructField("value", item), StructField("corrupt", StringType())])
    content = text(raw, encoding)
    wrapped = F.concat(F.lit('{"value":['), content, F.lit("]}"))
    parsed = F.struct(content.alias("text"), F.from_json(wrapped, whole, _STRICT).alias("found"))

    def value(_: Column, parsed: Column) -> Column:
        return parsed["text"] if kind is None else F.get(parsed["found"]["value"], F.lit(0))

    def reason(raw: Column, parsed: Column) -> Column:
        content, found = parsed["text"], parsed["found"]
        again = F.from_json(F.concat(F.lit('{"value":'), content, F.lit("}")), alone, _STRICT)
        broken = found["corrupt"].isNotNull() | ~F.coalesce(F.size(found["value"]) == 1, F.lit(col=False))
        escaped = F.when(content.rlike(_BREAKS_OUT), again["corrupt"].isNotNull())
        told = F.lit("it isn't one JSON document")
        if kind is not None:
            told = F.coalesce(misfits(content, again["value"], kind), F.concat(told, F.lit(" of the schema's types")))
        return first_reason(
            (not_text(raw, content, encoding).isNotNull(), f"it isn't {encoding}"),
            (broken | F.coalesce(escaped, F.lit(col=False)), told),
        )

    return Step(parsed, value, reason)
