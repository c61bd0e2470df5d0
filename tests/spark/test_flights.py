"""transforms.flights on a real Spark: every record becomes one row or is rejected with a reason."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from landed import DEPARTURE, Record, departure
from pyspark.sql import DataFrame, SparkSession

from tidegate_spark.outcome import LANDING_SCHEMA, as_outcome
from transforms.flights import departures

pytestmark = pytest.mark.spark

NOT_JSON = "the value is not one JSON object"
NO_CLOCK = "dep_time is not a time of day (HHMM)"
NO_INSTANT = "time_hour is not an instant (yyyy-MM-ddTHH:mm:ssZ) from 1900 to 2200"

REJECTED = {
    "null": (None, "the value is null (a tombstone)"),
    "bytes": (b"\xff\xfe\x00", "the value is not UTF-8"),
    "empty": (b"", NOT_JSON),
    "blank": (b"  ", NOT_JSON),
    "word": (b"hello", NOT_JSON),
    "JSON null": (b"null", NOT_JSON),
    "JSON number": (b"5", NOT_JSON),
    "array": (b"[" + departure() + b"]", NOT_JSON),
    "cut off": (departure()[:-1], NOT_JSON),
    "two objects": (departure() + departure(), NOT_JSON),
    "two objects, comma": (departure() + b"," + departure(), NOT_JSON),
    "more behind": (departure() + b" and more", NOT_JSON),
    "no carrier": (departure(carrier=None), "carrier is missing"),
    "no fields": (b"{}", "carrier is missing"),
    "no flight": (departure(flight=None), "flight is missing"),
    "no origin": (departure(origin=None), "origin is missing"),
    "no time_hour": (departure(time_hour=None), "time_hour is missing"),
    "fraction": (departure(distance=12.5), "distance is not a whole number"),
    "word for a number": (departure(flight="x"), "flight is not a whole number"),
    "NaN": (departure(dep_delay=float("nan")), "dep_delay is not a whole number"),
    "too large": (departure(air_time=2**31), "air_time is not a whole number"),
    "object for a number": (departure(year={"a": 1}), "year is not a whole number"),
    "61 minutes": (departure(dep_time=561), NO_CLOCK),
    "after midnight": (departure(dep_time=2401), NO_CLOCK),
    "no date": (departure(time_hour="2013-13-01T10:00:00Z"), NO_INSTANT),
    "only a time": (departure(time_hour="10:00"), NO_INSTANT),
    "far off": (departure(time_hour="9999-12-31T23:00:00Z"), NO_INSTANT),
    "endless delay": (departure(dep_delay=2**31 - 1), "dep_delay leads out of the years 1900 to 2200"),
    "unknown carrier": (departure(carrier="ZZ"), "carrier is not among the airlines"),
    "empty carrier": (departure(carrier=""), "carrier is not among the airlines"),
}


def landed(spark: SparkSession, records: list[Record]) -> DataFrame:
    rows = [tuple(record.row(at).values()) for at, record in enumerate(records)]
    return spark.createDataFrame(rows, LANDING_SCHEMA)


def outcome(spark: SparkSession, records: list[Record]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Rows and rejected records by their offset, each there once."""
    found = as_outcome(departures(landed(spark, records)), "departures")
    assert found.rejected is not None
    rows, rejected = found.rows.collect(), found.rejected.collect()
    offsets = [row.offset for row in rows] + [row.offset for row in rejected]
    assert sorted(offsets) == list(range(len(records)))
    return {row.offset: row.asDict() for row in rows}, {row.offset: row.asDict() for row in rejected}


def row(spark: SparkSession, **fields: object) -> dict[str, Any]:
    rows, rejected = outcome(spark, [Record(departure(**fields))])
    assert rejected == {}
    return rows[0]


def test_a_departure_becomes_a_row_with_its_airline_and_the_place_of_its_record(spark):
    found = row(spark)

    assert {name: found[name] for name in DEPARTURE if name != "time_hour"} == {
        name: value for name, value in DEPARTURE.items() if name != "time_hour"
    }
    assert found["airline"] == "United Air Lines Inc."
    assert (found["topic"], found["partition"], found["offset"]) == ("flights", 0, 0)


def test_times_become_instants(spark):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = as_outcome(departures(landed(spark, [Record(departure())])), "departures").rows
        times = found.selectExpr(*(f"unix_seconds({c})" for c in INSTANTS)).first()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")

    minutes = [datetime(2013, 1, 1, 10, minute, tzinfo=UTC).timestamp() for minute in (0, 15, 17, 17)]
    assert list(times) == minutes


INSTANTS = ("time_hour", "scheduled_departure", "departure", "event_time")


@pytest.mark.parametrize("absent", ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum"])
def test_a_cancelled_flight_is_a_row_with_nulls(spark, absent):
    assert row(spark, **{absent: None})[absent] is None


def test_an_unknown_delay_leaves_the_departure_unknown(spark):
    assert row(spark, dep_delay=None)["departure"] is None


@pytest.mark.parametrize("number", [517, 517.0, "517", "517.0"], ids=repr)
def test_a_whole_number_may_be_written_as_pandas_does(spark, number):
    assert row(spark, dep_time=number)["dep_time"] == 517


def test_each_flaw_is_rejected_with_its_reason_and_the_record_as_it_was(spark):
    headers = [("source", b"nyc"), ("source", b""), ("source", None)]
    records = [Record(value, key=None, headers=headers) for value, _ in REJECTED.values()]

    rows, rejected = outcome(spark, [*records, Record(departure())])

    assert {name: rejected[at]["reason"] for at, name in enumerate(REJECTED)} == {
        name: reason for name, (_, reason) in REJECTED.items()
    }
    assert list(rows) == [len(records)]
    for at, (value, _) in enumerate(REJECTED.values()):
        assert (rejected[at]["value"], rejected[at]["key"]) == (value, None)
        assert [tuple(header) for header in rejected[at]["headers"]] == headers


def test_all_carriers_are_known(spark):
    rows, rejected = outcome(spark, [Record(departure(carrier=code)) for code in ("9E", "UA", "YV", "WN")])

    assert rejected == {}
    assert [rows[at]["airline"] for at in range(4)] == [
        "Endeavor Air Inc.",
        "United Air Lines Inc.",
        "Mesa Airlines Inc.",
        "Southwest Airlines Co.",
    ]


fields = st.dictionaries(
    st.sampled_from(sorted(DEPARTURE)),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.lists(st.integers(), max_size=2)
    | st.datetimes().map(lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ")),
    max_size=3,
)
mangled = st.builds(lambda value, cut: value[: len(value) - cut], st.builds(departure), st.integers(0, 300))
values = (
    st.none()
    | st.binary(max_size=40)
    | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | mangled
    | fields.map(lambda changes: departure(**changes))
    | st.lists(fields.map(lambda changes: departure(**changes)), max_size=2).map(b"".join)
)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(junk=st.lists(st.builds(Record, values, st.none() | st.binary(max_size=4)), min_size=40, max_size=80))
def test_every_record_is_either_a_row_or_rejected_with_a_reason(spark, junk):
    rows, rejected = outcome(spark, junk)

    for at, found in rejected.items():
        assert found["reason"]
        assert found["value"] == junk[at].value
    for at, found in rows.items():
        sent = json.loads(junk[at].value)
        assert found["carrier"] == sent["carrier"]
        assert is_read_as(found["origin"], sent["origin"])
        assert found["airline"]
        assert found["scheduled_departure"] is not None or sent["sched_dep_time"] is None


def is_read_as(found: str, sent: object) -> bool:
    """Whether a string column may hold this for a JSON value: strings as they are, floats as Spark writes them."""
    if isinstance(sent, float):
        return math.isnan(sent) or float(found) == sent
    return found == (sent if isinstance(sent, str) else json.dumps(sent, separators=(",", ":")))
