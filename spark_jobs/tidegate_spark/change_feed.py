"""Merges a change feed into a table: of each key the change with the greatest sequence wins, be it the table's.

Files of the table that have a key of the batch are written anew without it (copy on write), and the result names them.
The keys that are deleted are kept with the sequence of their delete, so that an older change that comes late doesn't
bring a row back.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.types import BooleanType, StructType
from pyspark.storagelevel import StorageLevel

from tidegate_spark.outcome import ACK_SCHEMA, DefinitionError, TransformError, has_place
from tidegate_spark.uris import spark_uri

_OWN = "__tidegate_"
_DELETED, _CHANGES, _RANK, _FILE, _NEWER = (f"{_OWN}{name}" for name in ("deleted", "changes", "rank", "file", "newer"))


@dataclass(frozen=True)
class ChangeFeed:
    """The changes that rows of a subscription are, and the table that they go into.

    `files` are the URIs of the table's files, each with the texts of partition columns that it may lack; `tombstones`
    those of files with deleted keys. `table_schema` is None as long as there is no table.
    """

    subscription: str
    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    delete_when: str | None
    files: Mapping[str, Mapping[str, str | None]]
    table_schema: StructType | None
    tombstones: tuple[str, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any], subscription: str) -> "ChangeFeed":
        """The one that the subscription's manifest holds. Raises KeyError, TypeError or ValueError for what is none."""
        schema = found["table_schema"]
        return cls(
            subscription=subscription,
            keys=tuple(found["keys"]),
            sequence_by=tuple(found["sequence_by"]),
            delete_when=found["delete_when"],
            files={file["uri"]: file["partition"] for file in found["files"]},
            table_schema=None if schema is None else StructType.fromJson(schema),
            tombstones=tuple(found["tombstones"]),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the key, then those of the sequence."""
        return (*self.keys, *self.sequence_by)


@dataclass(frozen=True)
class Merged:
    """What is to be written: the winning upserts, the other rows of the files that these replace, and deleted keys.

    `left_out` rows of the batch aren't written: deletes, and changes that lost against another one of their key.
    """

    upserts: DataFrame
    has_upserts: bool
    left_out: int
    rewritten: DataFrame | None
    replaced_files: tuple[str, ...]
    tombstones: DataFrame


@contextmanager
def merged(spark: SparkSession, feed: ChangeFeed, rows: DataFrame, transform: str) -> Iterator[Merged]:
    """What becomes of the table; frames are kept on the executors while the block runs.

    Raises TransformError, naming the transform, where rows or the table lack a column of the key or the sequence, and
    where a row has null in each column of the key: such rows have nothing in common. Raises DefinitionError where
    delete-when is no condition on the rows, and where their columns can't be compared as key and sequence.
    """
    _check_columns(feed, rows, transform)
    with _kept(_latest(feed, rows)) as latest, _kept(_matches(spark, feed, latest)) as matches:
        lost = matches.filter(_NEWER).select(*_names("k", feed.keys)).distinct()
        with _kept(_without(latest, feed.keys, lost)) as winners:
            changes = _changes(feed, latest, transform)
            upserts = winners.filter(~F.col(_DELETED)).count()
            yield Merged(
                upserts=winners.filter(~F.col(_DELETED)).select(*map(_quoted, rows.columns)),
                has_upserts=upserts > 0,
                left_out=changes - upserts,
                **_rewritten(spark, feed, matches, winners),
                tombstones=_tombstones(spark, feed, winners),
            )


def _changes(feed: ChangeFeed, latest: DataFrame, transform: str) -> int:
    """How many changes the batch has; raises TransformError where any has no key."""
    is_keyless = reduce(and_, (F.col(_quoted(name)).isNull() for name in feed.keys))
    place = F.struct(*ACK_SCHEMA.fieldNames()) if has_place(latest) else F.lit(None)
    keyless_changes, one = F.when(is_keyless, F.col(_CHANGES)), F.when(is_keyless, place)
    found = latest.agg(F.sum(_CHANGES), F.sum(keyless_changes), F.first(one, ignorenulls=True))
    changes, keyless, at = found.collect()[0]
    if keyless:
        among = "" if at is None else f", {at[0]}-{at[1]} offset {at[2]} among them"
        raise TransformError(
            f"{transform}: {keyless} of its rows have null in {', '.join(feed.keys)}{among}: rows without a key would "
            "replace each other; take the key from elsewhere in the record, or return the record as rejected"
        )
    return changes or 0


def _check_columns(feed: ChangeFeed, rows: DataFrame, transform: str) -> None:
    table = rows.columns if feed.table_schema is None else feed.table_schema.names
    for found, whose in ((rows.columns, f"{transform}: its rows lack"), (table, "the table lacks")):
        names = {name.lower() for name in found}
        if missing := [name for name in feed.columns if name.lower() not in names]:
            raise TransformError(
                f"{whose} {', '.join(missing)}, which keys or sequence-by name; they have {', '.join(found)}: "
                "name others, or add it there first"
            )


def _latest(feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """Of each key the greatest change, and how many there were; of equal ones that of the later record."""
    place = [F.col(name).desc() for name in ACK_SCHEMA.fieldNames()] if has_place(rows) else []
    sequence = [F.col(_quoted(name)).desc_nulls_last() for name in feed.sequence_by]
    of_key = Window.partitionBy(*map(_quoted, feed.keys))
    marked = _with_deleted(feed, rows)
    try:
        ranked = marked.withColumns(
            {
                _RANK: F.row_number().over(of_key.orderBy(*sequence, *place, F.col(_DELETED).desc())),
                _CHANGES: F.count(F.lit(1)).over(of_key),
            }
        )
        _ = ranked.schema  # which Spark Connect asks for late
    except AnalysisException as error:
        raise DefinitionError(
            f"processing.keys {', '.join(feed.keys)} and sequence-by {', '.join(feed.sequence_by)} can't be compared: "
            f"{_first_line(error)}; name columns of a text, a number, a date or a time"
        ) from error
    return ranked.filter(F.col(_RANK) == 1).drop(_RANK)


def _with_deleted(feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """With whether each is a delete; a condition that is null is false."""
    condition = feed.delete_when
    if condition is None:
        return rows.withColumn(_DELETED, F.lit(False))  # noqa: FBT003 (it takes no keyword)
    columns = ", ".join(rows.columns)
    try:
        marked = rows.withColumn(_DELETED, F.expr(condition))
        kind = marked.schema[_DELETED].dataType
    except AnalysisException as error:
        raise DefinitionError(
            f"processing.delete-when `{condition}` is no condition on the rows: {_first_line(error)}; correct it: they "
            f"have {columns}, and a text is quoted, as in op = 'd'"
        ) from error
    if not isinstance(kind, BooleanType):
        raise DefinitionError(
            f"processing.delete-when `{condition}` is of type {kind.simpleString()}, and no condition; compare it, as "
            "in op = 'd'"
        )
    return marked.withColumn(_DELETED, F.coalesce(_DELETED, F.lit(False)))  # noqa: FBT003 (it takes no keyword)


def _first_line(error: AnalysisException) -> str:
    return str(error).strip().partition("\n")[0].rstrip("; ")


def _matches(spark: SparkSession, feed: ChangeFeed, latest: DataFrame) -> DataFrame:
    """For each row of the table, and each deleted key, that has a key of the batch: its file, and whether it is newer.

    The key's columns are called as `_names` has it.
    """
    changes = latest.select(*_renamed("k", feed.keys), *_renamed("s", feed.sequence_by))
    known = [_places(frame, feed) for frame in (_table(spark, feed, feed.files), _deleted(spark, feed))]
    found = reduce(DataFrame.unionByName, known)
    same = _all_equal(_names("k", feed.keys), _names("t", feed.keys))
    newer = _is_greater(_names("u", feed.sequence_by), _names("s", feed.sequence_by))
    return found.join(changes, same).select(*_names("k", feed.keys), _FILE, newer.alias(_NEWER))


def _places(frame: DataFrame, feed: ChangeFeed) -> DataFrame:
    return frame.select(*_renamed("t", feed.keys), *_renamed("u", feed.sequence_by), _FILE)


def _table(spark: SparkSession, feed: ChangeFeed, files: Collection[str]) -> DataFrame:
    """The rows of these files of the table, and the URI of each one's file."""
    schema = feed.table_schema
    if schema is None or not files:
        return _nothing(spark, feed)
    # without recursiveFileLookup Spark makes columns of the names of folders
    read = spark.read.schema(schema).option("recursiveFileLookup", "true")
    rows = read.parquet(*(spark_uri(uri) for uri in files))
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    uri = F.regexp_replace(path, "^file:/+", "file:///")  # Hadoop writes one slash or three
    return _with_partitions(spark, feed, rows.select("*", uri.alias(_FILE)))


def _nothing(spark: SparkSession, feed: ChangeFeed) -> DataFrame:
    nothing = [F.lit(None).alias(name) for name in (*feed.columns, _FILE)]
    return spark.range(0).select(*nothing)


def _with_partitions(spark: SparkSession, feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """With the values of partition columns, which other writers leave out of the files."""
    by_file = [(spark_uri(uri), dict(values)) for uri, values in feed.files.items() if values]
    if not by_file:
        return rows
    types = {field.name: field.dataType for field in rows.schema}
    named = {name for _, values in by_file for name in values}
    values = spark.createDataFrame(by_file, f"{_FILE} string, {_OWN}values map<string,string>")
    filled = {name: F.coalesce(F.col(_quoted(name)), F.col(f"{_OWN}values")[name].cast(types[name])) for name in named}
    return rows.join(F.broadcast(values), _FILE, "left").withColumns(filled).select(*map(_quoted, rows.columns))


def _deleted(spark: SparkSession, feed: ChangeFeed) -> DataFrame:
    """The keys that were deleted so far, with the sequence of their delete; they have no file."""
    if not feed.tombstones:
        return _nothing(spark, feed)
    found = spark.read.parquet(*map(spark_uri, feed.tombstones))
    if found.columns != list(feed.columns):
        raise TransformError(
            f"keys and sequence-by are {', '.join(feed.columns)}, and the table was made by {', '.join(found.columns)}"
            ": leave them as they were; or begin anew, in another processing.output, by `tidegate group reset "
            f"{feed.subscription} --to earliest --abandon`, which reads what Kafka still holds"
        )
    return found.withColumn(_FILE, F.lit(None).cast("string"))


def _rewritten(spark: SparkSession, feed: ChangeFeed, matches: DataFrame, winners: DataFrame) -> dict[str, Any]:
    """The files with rows that the winners replace, and what else is in them; None for no row."""
    keys = winners.select(*_renamed("w", feed.keys))
    same = _all_equal(_names("k", feed.keys), _names("w", feed.keys))
    touched = matches.filter(F.col(_FILE).isNotNull()).join(keys, same, "left_semi").select(_FILE).distinct()
    uris = {spark_uri(uri): uri for uri in feed.files}
    replaced = tuple(sorted(uris[row[0]] for row in touched.collect()))
    if not replaced:
        return {"rewritten": None, "replaced_files": ()}
    others = _without(_table(spark, feed, replaced).drop(_FILE), feed.keys, winners.select(*_renamed("k", feed.keys)))
    return {"rewritten": None if others.isEmpty() else others, "replaced_files": replaced}


def _tombstones(spark: SparkSession, feed: ChangeFeed, winners: DataFrame) -> DataFrame:
    """The deleted keys from here on: those of before of which no change has won, and the batch's own.

    Where there are none their file is written all the same: its columns tell by which keys the table was made.
    """
    own = winners.filter(_DELETED).select(*map(_quoted, feed.columns))
    if not feed.tombstones:
        return own.coalesce(1)
    before = _without(_deleted(spark, feed).drop(_FILE), feed.keys, winners.select(*_renamed("k", feed.keys)))
    return before.unionByName(own).coalesce(1)


def _without(frame: DataFrame, keys: Sequence[str], others: DataFrame) -> DataFrame:
    """The rows whose key isn't among these, which are called as `_names` has it."""
    return frame.join(others, _all_equal(map(_quoted, keys), _names("k", keys)), "left_anti")


def _all_equal(one: Collection[str] | Iterator[str], other: Collection[str]) -> Column:
    """Null is a value like any other."""
    return reduce(and_, (F.col(a).eqNullSafe(F.col(b)) for a, b in zip(one, other, strict=True)))


def _is_greater(one: Sequence[str], other: Sequence[str]) -> Column:
    """By the first of these columns that differ; null is the least."""
    greater = F.expr("false")
    for a, b in reversed([*zip(map(F.col, one), map(F.col, other), strict=True)]):
        greater = F.when(a.eqNullSafe(b), greater).otherwise(F.coalesce(a > b, a.isNotNull()))
    return greater


def _names(mark: str, columns: Sequence[str]) -> list[str]:
    return [f"{_OWN}{mark}{place}" for place, _ in enumerate(columns)]


def _renamed(mark: str, columns: Sequence[str]) -> list[Column]:
    names = _names(mark, columns)
    return [F.col(_quoted(column)).alias(name) for column, name in zip(columns, names, strict=True)]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()
