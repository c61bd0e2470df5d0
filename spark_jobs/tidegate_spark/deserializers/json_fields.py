"""Which fields of a JSON object aren't of their types, by name."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.types import DataType, StructType

_TEXTS = "map<string, string>"
_MOST_NAMED = 5
_LONGEST_TYPE = 60  # characters


def misfits(content: Column, value: Column, kind: DataType) -> Column:
    """What the text has and Spark could not read, as `its field a.b isn't int`; null if that isn't known.

    `value` is what Spark read from the text: it leaves a field null that isn't of its type. Structs in arrays and
    maps aren't looked into.
    """
    named = F.slice(_names(content, value, kind, ""), 1, _MOST_NAMED)
    return F.when(value.isNotNull() & (F.size(named) > 0), F.concat_ws(", ", named))


def _names(content: Column, value: Column, kind: DataType, within: str) -> Column:
    if not isinstance(kind, StructType) or not kind.fields:
        return F.array().cast("array<string>")
    texts = F.from_json(content, _TEXTS)
    there = F.map_keys(F.map_filter(texts, lambda _, text: text.isNotNull()))
    read = F.map_keys(F.from_json(F.to_json(value, {"ignoreNullFields": "true"}), _TEXTS))
    known = F.array(*(F.lit(field.name) for field in kind.fields))
    unread = F.array_except(F.array_intersect(known, there), read)
    types = F.create_map(*(F.lit(text) for field in kind.fields for text in (field.name, _text(field.dataType))))
    own = F.transform(unread, lambda name: F.concat(F.lit(f"its field {within}"), name, F.lit(" isn't "), types[name]))
    structs = [field for field in kind.fields if isinstance(field.dataType, StructType)]
    inner = (
        _names(texts[field.name], value[field.name], field.dataType, f"{within}{field.name}.") for field in structs
    )
    return F.concat(*(F.coalesce(some, F.array().cast("array<string>")) for some in (own, *inner)))


def _text(kind: DataType) -> str:
    whole = kind.simpleString()
    return whole if len(whole) <= _LONGEST_TYPE else kind.typeName()
