"""Which step decodes what: a deserializer's name, and the step that it stands for."""

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.deserializers import numbers
from tidegate_spark.deserializers.avro import avro
from tidegate_spark.deserializers.framed import not_framed, unreadable
from tidegate_spark.deserializers.json_schema import type_of
from tidegate_spark.deserializers.json_values import json_value, schema_type
from tidegate_spark.deserializers.step import Decoder, Step, UnusableSchemaError
from tidegate_spark.deserializers.texts import string, uuid

_ID_BYTES = 5


def step_of(raw: Column, decoder: Decoder) -> Step:
    """The step that decodes this column. Raises UnusableSchemaError for a name that none has."""
    if decoder.name in numbers.NAMES:
        return numbers.number(raw, decoder.name)
    try:
        return _STEPS[decoder.name](raw, decoder)
    except KeyError:
        known = ", ".join(sorted({*numbers.NAMES, *_STEPS}))
        raise UnusableSchemaError(f"there is no deserializer {decoder.name}; there are {known}") from None


def _bytes(raw: Column, _: Decoder) -> Step:
    return Step(raw, lambda _, parsed: parsed, lambda _raw, _parsed: F.lit(None).cast("string"))


def _json_schema(raw: Column, decoder: Decoder) -> Step:
    """JSON in Confluent's wire format: every schema's values are read as the reader's types."""
    if decoder.reader is None:
        return unreadable(decoder)
    document = json_value(_after_id(raw), "UTF-8", type_of(decoder.reader))
    return Step(
        document.parsed,
        lambda raw, parsed: document.value(_after_id(raw), parsed),
        lambda raw, parsed: F.coalesce(not_framed(raw, decoder), document.reason(_after_id(raw), parsed)),
    )


def _protobuf(raw: Column, decoder: Decoder) -> Step:
    try:
        from tidegate_spark.deserializers.protobuf import protobuf  # noqa: PLC0415 (has needs that no other has)
    except ImportError as error:
        raise ImportError(
            f"the deserializer protobuf needs Spark 4.1, PyArrow and NumPy where the job runs: {error}"
        ) from error
    return protobuf(raw, decoder)


def _after_id(raw: Column) -> Column:
    return F.substr(raw, F.lit(_ID_BYTES + 1), F.octet_length(raw))


_STEPS: Mapping[str, Callable[[Column, Decoder], Step]] = {
    "bytes": _bytes,
    "string": lambda raw, decoder: string(raw, decoder.encoding),
    "uuid": lambda raw, decoder: uuid(raw, decoder.encoding),
    "json": lambda raw, decoder: json_value(raw, decoder.encoding, schema_type(decoder.schema)),
    "avro": avro,
    "protobuf": _protobuf,
    "json-schema": _json_schema,
}
