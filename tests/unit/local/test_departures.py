"""The sample data as it is published."""

import json
import zipfile
from datetime import UTC, datetime

import pytest

from tidegate_local.flights import FLIGHTS, Departure, departures, package_data

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def published() -> list[Departure]:
    return list(departures())


def test_there_are_as_many_as_the_package_has(published: list[Departure]):
    assert len(published) == FLIGHTS


def test_each_row_is_there_once_with_every_column_of_the_package(published: list[Departure]):
    with zipfile.ZipFile(package_data("flights.csv.zip")) as archive:
        header, *rows = archive.read("flights.csv").decode().splitlines()
    found = [
        ",".join("NA" if column is None else str(column) for column in json.loads(each.value).values())
        for each in published
    ]
    assert ",".join(json.loads(published[0].value)) == header
    assert sorted(found) == sorted(rows)


def test_the_first_is_keyed_timed_and_typed(published: list[Departure]):
    first = published[0]
    value = json.loads(first.value)
    assert first.key == b"UA"
    assert (value["dep_time"], value["tailnum"], value["time_hour"]) == (517, "N14228", "2013-01-01T10:00:00Z")
    assert first.timestamp == datetime(2013, 1, 1, 10, tzinfo=UTC).timestamp() * 1000


def test_what_the_package_lacks_is_null(published: list[Departure]):
    cancelled = sum(b'"dep_time":null' in each.value for each in published)
    assert cancelled == 8_255  # the package's own documentation counts as many


def test_they_come_in_the_order_of_their_time(published: list[Departure]):
    times = [each.timestamp for each in published]
    assert times == sorted(times)
