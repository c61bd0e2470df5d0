"""What an order means to Spark's Kafka source, without a Spark."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.landing_request import LandingRequest as EnginesOrder
from tidegate.model.offsets import Range
from tidegate.spark.landing import client_environment
from tidegate_spark.land_batch import client_properties
from tidegate_spark.landing_request import (
    LandingRequest,
    LandingRequestError,
    OrderedRange,
    parse_landing_request,
    source_options,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLACES = st.dictionaries(
    st.tuples(st.sampled_from(["flights", "orders.eu", "o_1-x"]), st.integers(0, 2**31 - 1)),
    st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted),
    min_size=1,
)
REFUSED_BY_SPARK = {
    *("kafka.auto.offset.reset", "kafka.key.deserializer", "kafka.value.deserializer", "kafka.enable.auto.commit"),
    "kafka.interceptor.classes",
}


@given(places=PLACES, client=st.dictionaries(TEXTS, TEXTS))
def test_the_options_are_the_plan_and_the_client_and_nothing_else(
    places: dict[tuple[str, int], list[int]], client: dict[str, str]
) -> None:
    ranges = tuple(Range(*at, *offsets) for at, offsets in places.items())
    engines = EnginesOrder("file:///o", "flights", "b1", "file:///f/a b%20", ranges, 60_000)
    order = parse_landing_request(engines.to_json(), engines.uri)
    handed = client_properties(client_environment(client))
    options = source_options(order, handed)
    assert spread(options["startingOffsets"]) == {at: start for at, (start, _) in places.items()}
    assert spread(options["endingOffsets"]) == {at: end for at, (_, end) in places.items()}
    assigned = json.loads(options["assign"])
    assert {(topic, number) for topic, numbers in assigned.items() for number in numbers} == places.keys()
    assert {name.removeprefix("kafka."): v for name, v in options.items() if name.startswith("kafka.")} == client
    assert (options["failOnDataLoss"], options["includeHeaders"]) == ("true", "true")
    assert options["kafkaConsumer.pollTimeoutMs"] == "60000"
    assert (order.folder, order.batch_id, order.subscription) == (engines.folder, "b1", "flights")


def spread(offsets: str) -> dict[tuple[str, int], int]:
    return {
        (t, int(number)): offset for t, of_topic in json.loads(offsets).items() for number, offset in of_topic.items()
    }


def test_a_client_of_any_length_fits_into_variables() -> None:
    client = {"ssl.truststore.certificates": "x" * 300_000, "sasl.jaas.config": 'y"€'}
    environment = client_environment(client)
    assert max(len(f"{name}={value}".encode()) for name, value in environment.items()) < 131_072
    assert client_properties({"PATH": "/bin", **environment}) == client
    assert client_properties({"PATH": "/bin"}) == {}


def test_values_become_texts() -> None:
    assert client_properties(client_environment({"check.crcs": True, "fetch.min.bytes": 1})) == {
        "check.crcs": "true",
        "fetch.min.bytes": "1",
    }


WHOLE: dict[str, Any] = {
    "format": 1,
    "subscription": "flights",
    "batch_id": "b1",
    "folder": "file:///f",
    "ranges": [{"topic": "t", "partition": 0, "start": 1, "end": 2}],
    "poll_timeout_ms": 5,
}


def test_an_order_is_read() -> None:
    expected = LandingRequest("flights", "b1", "file:///f", (OrderedRange("t", 0, 1, 2),), 5)
    assert parse_landing_request(json.dumps(WHOLE), "file:///o.json") == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "has format 2; this job follows format 1"),
        ({"folder": None, "ranges": 5}, "no order to land a batch"),
        ({"ranges": [{"topic": "t"}]}, "no order to land a batch"),
    ],
)
def test_an_order_of_another_kind_is_refused(change: Mapping[str, object], said: str) -> None:
    with pytest.raises(LandingRequestError, match=f"file:///o.json .*{said}"):
        parse_landing_request(json.dumps({**WHOLE, **change}), "file:///o.json")
    with pytest.raises(LandingRequestError, match="no order"):
        parse_landing_request("[", "file:///o.json")
