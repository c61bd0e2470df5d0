from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chaos.rereads import Reread, Rereads, audit_rereads


def reread(rows: list[int], start: int = 0, end: int = 3) -> Reread:
    return Reread({0: (start, end)}, {0: np.array(rows, np.int64)})


CLEAN = Rereads(
    acknowledged={0: np.array([0, 1, 4], np.int64)},
    batches={"b1": reread([0, 1]), "b2": reread([4, 1, 0], end=6)},
    closed=frozenset({"b1", "b2"}),
)


def with_b2(batch: Reread) -> dict[str, Any]:
    return {"batches": CLEAN.batches | {"b2": batch}}


def test_each_batch_holds_the_records_of_its_ranges_whatever_the_others_hold() -> None:
    assert audit_rereads(CLEAN).is_clean


def test_what_was_never_answered_for_may_be_there() -> None:
    assert audit_rereads(replace(CLEAN, unsure=True, **with_b2(reread([0, 1, 2, 4], end=6)))).is_clean


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        (with_b2(reread([0, 4], end=6)), {"losses": 1}),
        (with_b2(reread([0, 1, 4, 4], end=6)), {"duplicates": 1}),
        (with_b2(reread([0, 1, 2], end=3)), {"strangers": 1}),
        (with_b2(reread([0, 1, 4], end=3)), {"strangers": 1}),
        (with_b2(reread([1], start=1)), {"lag": 1}),
        ({"closed": frozenset({"b1"})}, {"strangers": 1}),
        ({"closed": frozenset({"b1", "b2", "b3"})}, {"losses": 1}),
        ({"moved": 2}, {"lag": 2}),
        ({"open_batches": ["b3"]}, {"open_batches": 1}),
        ({"orphans": ["/lake/_staging/b1-x"]}, {"orphans": 1}),
    ],
)
def test_what_was_planted_is_found(change: dict[str, Any], numbers: dict[str, int]) -> None:
    verdict = audit_rereads(replace(CLEAN, **change))
    clean = dict.fromkeys(("losses", "duplicates", "strangers", "lag", "open_batches", "orphans"), 0)
    assert {name: getattr(verdict, name) for name in clean} == clean | numbers
    assert verdict.examples
