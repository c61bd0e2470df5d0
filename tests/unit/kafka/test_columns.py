from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from tidegate.kafka import columns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

maybe_bytes = st.none() | st.binary(max_size=20)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=4)
records = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.integers(0, 9),
        "offset": st.integers(0, 2**62),
        "key": maybe_bytes,
        "value": maybe_bytes,
        "timestamp": st.tuples(st.sampled_from([1, 2]), st.integers(0, 2**40)),
        "headers": header_lists,
    }
)


def rows(messages: list[Message]) -> list[dict[str, Any]]:
    topic = np.array([["a", "b"].index(m.topic()) for m in messages], np.int32)
    batch = columns.record_batch(
        messages,
        topics=columns.topic_names(["a", "b"]),
        topic=topic,
        partition=columns.partitions(messages),
        offset=columns.offsets(messages),
        stamped=columns.stamps(messages),
    )
    batch.validate(full=True)
    assert batch.schema == columns.SCHEMA
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


@given(st.lists(records, max_size=30))
def test_every_field_of_every_message_becomes_a_value_of_its_row(some: list[dict[str, Any]]) -> None:
    expected = [
        {
            "key": r["key"],
            "value": r["value"],
            "topic": r["topic"],
            "partition": r["partition"],
            "offset": r["offset"],
            "timestamp": EPOCH + timedelta(milliseconds=r["timestamp"][1]),
            "timestampType": r["timestamp"][0] - 1,
            "headers": [{"key": k, "value": v} for k, v in r["headers"]] if r["headers"] else None,
        }
        for r in some
    ]
    assert rows([Message(**r) for r in some]) == expected


@pytest.mark.parametrize(("librdkafka", "java"), [(0, -1), (1, 0), (2, 1)])
def test_timestamp_types_have_javas_ids(librdkafka: int, java: int) -> None:
    message = Message(topic="a", partition=0, offset=0, timestamp=(librdkafka, 5))
    assert rows([message])[0]["timestampType"] == java


def test_a_missing_value_differs_from_an_empty_one() -> None:
    some = [
        Message(topic="a", partition=0, offset=0, key=None, value=None, headers=[("h", None)], timestamp=(1, 0)),
        Message(topic="a", partition=0, offset=1, key=b"", value=b"", headers=[("h", b"")], timestamp=(1, 0)),
    ]
    tombstone, empty = rows(some)
    assert (tombstone["key"], tombstone["value"], tombstone["headers"]) == (None, None, [{"key": "h", "value": None}])
    assert (empty["key"], empty["value"], empty["headers"]) == (b"", b"", [{"key": "h", "value": b""}])


def test_repeated_headers_are_kept_in_order() -> None:
    pairs = [("a", b"1"), ("b", b"2"), ("a", b"1")]
    message = Message(topic="a", partition=0, offset=0, headers=pairs, timestamp=(1, 0))
    assert rows([message])[0]["headers"] == [{"key": k, "value": v} for k, v in pairs]


def test_only_the_wanted_rows_are_kept() -> None:
    batch = pa.record_batch({"n": list(range(11))})
    wanted = np.arange(11) % 3 == 0
    assert columns.only(batch, wanted).to_pydict() == {"n": [0, 3, 6, 9]}
