"""Protobuf in Confluent's wire format, by a vectorised Arrow function on Spark's workers.

Spark's own `from_protobuf` is in a connector that isn't published for this Spark, and needs it on every cluster.
"""

import json
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ByteType, DataType, StructField, StructType

from tidegate_spark.deserializers import protobuf_columns, protobuf_wire
from tidegate_spark.deserializers.framed import by_framing, not_framed, payload, unreadable
from tidegate_spark.deserializers.protobuf_wire import NO_MESSAGE, NO_TIME
from tidegate_spark.deserializers.step import Decoder, Step, UnusableSchemaError, first_reason

if TYPE_CHECKING:
    import pyarrow as pa


def protobuf(raw: Column, decoder: Decoder) -> Step:
    """The message as the reader's layout has it; without one, only null can be decoded."""
    if decoder.reader is None:
        return unreadable(decoder)
    layout = json.loads(decoder.reader)
    kind = message_type(layout)
    usable = [one for one in decoder.framings if one.problem is None]
    content = by_framing(raw, usable, lambda one: payload(raw, one.prefix), F.lit(None).cast("binary"))

    def reason(raw: Column, parsed: Column) -> Column:
        bad = F.coalesce(parsed["bad"], F.lit(NO_MESSAGE))
        why = first_reason(
            (bad == NO_MESSAGE, f"its payload isn't a message {layout['root']}"), (bad == NO_TIME, _no_time(layout))
        )
        return F.coalesce(not_framed(raw, decoder), why)

    return Step(_reading(layout, kind)(content), lambda _, parsed: parsed["value"], reason)


def _no_time(layout: Any) -> str:
    beyond = "isn't in the years 1 to 9999, or its nanos aren't in 0 to 999999999"
    return f"a timestamp of its message {layout['root']} {beyond}"


def message_type(layout: Any) -> DataType:
    """The Spark type of a layout's messages. Raises UnusableSchemaError where a field is of a type that isn't read."""
    try:
        return from_arrow_type(protobuf_columns.Reader(layout).kind)
    except ValueError as error:
        raise UnusableSchemaError(f"message {layout['root']}: {error}") from None


def _reading(layout: Any, kind: DataType) -> Any:
    for module in (protobuf_columns, protobuf_wire):  # workers don't have this package: the function has it inside
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # PySpark's has no types
    reader = protobuf_columns.Reader(layout)

    def read(contents: "pa.Array") -> "pa.Array":
        import pyarrow as pa  # noqa: PLC0415 (of the worker)

        values, bad = reader.read(contents)
        return pa.StructArray.from_arrays([values, pa.array(bad)], ["value", "bad"])

    read.__annotations__ = {}
    made = StructType([StructField("value", kind), StructField("bad", ByteType())])
    # Spark would evaluate a deterministic function once for what is kept and once more for what is asked about it.
    return arrow_udf(read, made).asNondeterministic()  # type: ignore[call-overload]  # its types know no struct
