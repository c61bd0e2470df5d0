"""Avro in Confluent's wire format, by Spark's own `from_avro`: each record by its writer's schema, to the reader's.

`from_avro` gives a row of nulls for bytes that it can't read and doesn't mind what follows a value. So writer's and
reader's schema are put into a record that ends with eight known bytes: a value that is read short, long or not at
all doesn't meet them.
"""

import json

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.avro.functions import from_avro

from tidegate_spark.deserializers.framed import by_framing, not_framed, payload, schema_id, unreadable
from tidegate_spark.deserializers.step import Decoder, Framing, Step, first_reason

_END = bytes.fromhex("a1b2c3d4e5f60718")


def avro(raw: Column, decoder: Decoder) -> Step:
    """The value as its reader's schema has it; without one, only null can be decoded."""
    if decoder.reader is None:
        return unreadable(decoder)
    ended = _ended(decoder.reader)
    usable = [one for one in decoder.framings if one.schema is not None and one.problem is None]
    nothing = from_avro(F.lit(None).cast("binary"), ended)

    def decode(framing: Framing) -> Column:
        data = F.concat(payload(raw, framing.prefix), F.lit(_END))
        return from_avro(data, _ended(str(framing.schema)), {"mode": "PERMISSIVE", "avroSchema": ended})

    def reason(raw: Column, parsed: Column) -> Column:
        met = F.coalesce(parsed["end"] == F.lit(_END), F.lit(col=False))
        unlike = F.format_string(
            "its payload isn't what schema id %s says, or can't be read as %s", schema_id(raw), F.lit(decoder.read_by)
        )
        return F.coalesce(not_framed(raw, decoder), first_reason((~met, unlike)))

    return Step(by_framing(raw, usable, decode, nothing), lambda _, parsed: parsed["value"], reason)


def _ended(schema: str) -> str:
    """The Avro schema of a value and the known bytes after it."""
    end = {"type": "fixed", "name": "TidegateEnd", "size": len(_END)}
    fields = [{"name": "value", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "TidegateEnded", "fields": fields})
