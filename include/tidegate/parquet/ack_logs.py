"""Acknowledgements as lines of a log, which whoever sends records one by one can append as each is answered.

A line is `topic,partition,offset,status,attempts,milliseconds since 1970`. What a crash left of a last line is no line.
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import csv

from tidegate.model.offsets import TopicPartition

SUFFIX: Final = ".csv"
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("status", pa.int32()),
        ("attempts", pa.int32()),
        ("answered", pa.int64()),
    ]
)
_READ = csv.ReadOptions(column_names=SCHEMA.names)
_CONVERT = csv.ConvertOptions(column_types=SCHEMA, strings_can_be_null=False)


def ack_line(at: TopicPartition, offset: int, *, status: int, attempts: int, answered: int) -> str:
    """A line of the log; a topic's name has no comma."""
    return f"{at.topic},{at.partition},{offset},{status},{attempts},{answered}\n"


def read_ack_log(content: bytes) -> pa.Table:
    """The lines of a log. Raises ArrowInvalid for what isn't one."""
    whole = content[: content.rfind(b"\n") + 1]
    if not whole:
        return SCHEMA.empty_table()
    return csv.read_csv(pa.BufferReader(whole), read_options=_READ, convert_options=_CONVERT)


def read_ack_logs(paths: list[Path]) -> pa.Table:
    """The lines of all these logs, the first of each record alone, in order of topic, partition and offset."""
    if not paths:
        return SCHEMA.empty_table()
    every = pa.concat_tables(read_ack_log(path.read_bytes()) for path in paths)
    place = ["topic", "partition", "offset"]
    firsts = every.group_by(place, use_threads=False).aggregate([(name, "first") for name in SCHEMA.names[3:]])
    named = firsts.rename_columns([name.removesuffix("_first") for name in firsts.column_names])
    return named.select(SCHEMA.names).cast(SCHEMA).sort_by([(name, "ascending") for name in place])
