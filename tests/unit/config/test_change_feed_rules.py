"""What makes a change feed, and what it can't be combined with."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.config.reading import Reading, read_text
from tidegate.model.change_feed import ChangeFeed

FEED = {"format": "delta", "output": "x", "keys": ["id"], "sequence-by": ["ts_ms", "offset"]}


def read(processing: dict[str, Any], **top: Any) -> Reading:
    document = {"topics": ["flights"], "consumer": {"group.id": "g"}, "processing": processing, **top}
    return read_text(Path("flights.yaml"), yaml.safe_dump(document))


def test_keys_make_a_change_feed() -> None:
    found = read({**FEED, "delete-when": "op = 'd'"}).subscription
    assert found is not None
    assert found.processing.change_feed == ChangeFeed(("id",), ("ts_ms", "offset"), "op = 'd'")
    plain = read({"format": "delta", "output": "x"}).subscription
    assert plain is not None
    assert plain.processing.change_feed is None


@pytest.mark.parametrize(
    ("changed", "path", "said"),
    [
        ({"format": "parquet"}, "processing.keys", "is for tables, and processing.format is parquet"),
        ({"sequence-by": None}, "processing.sequence-by", "processing.keys needs the columns that say"),
        ({"keys": None}, "processing.sequence-by", "is given without processing.keys"),
        ({"sequence-by": ["ts_ms", "id"]}, "processing.sequence-by", "names id, which is of the key"),
        ({"schema-evolution": "rescue"}, "processing.schema-evolution", "can't be combined with processing.keys"),
        ({"keys": []}, "processing.sequence-by", "is given without processing.keys"),
        ({"keys": ["batch_id"]}, "processing.keys", "not batch_id"),
        ({"delete-when": ""}, "processing.delete-when", "a condition in SQL"),
        ({"format": "parquet", "keys": None}, "processing.sequence-by", "is for tables"),
    ],
)
def test_what_is_no_change_feed_is_told(changed: dict[str, Any], path: str, said: str) -> None:
    problems = read({**FEED, **changed}).problems
    assert any(path in str(problem) and said in problem.message for problem in problems), problems


@pytest.mark.parametrize(
    ("sequence", "failure", "warned"),
    [
        (["offset"], "dead-letter-queue", True),
        (["offset"], "delayed-retry-topic", True),
        (["offset"], "fail", False),
        (["ts_ms", "offset"], "dead-letter-queue", False),
    ],
)
def test_offsets_dont_order_what_comes_back_from_another_topic(sequence: list[str], failure: str, warned: bool) -> None:
    problems = read({**FEED, "sequence-by": sequence}, **{"failure-strategy": failure}).problems
    found = [
        (problem.rule, problem.severity) for problem in problems if "comes back has another offset" in problem.message
    ]
    assert found == ([("order-of-changes", "warning")] if warned else [])
