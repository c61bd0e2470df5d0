from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from chaos.audit import Evidence, Verdict, audit, record, records, total
from tidegate.model.offsets import TopicPartition

AT = [TopicPartition("numbers", partition) for partition in range(4)]
ENDS = {AT[0]: 2, AT[1]: 1, AT[2]: 1, AT[3]: 1}
CLEAN = Evidence(
    acknowledged=records([0, 1, 2, 5], [0, 1, 0, 3]),
    uncertain=records([3, 4], [2, 2]),
    lake=records([5, 1, 0, 2, 3], [3, 1, 0, 0, 2]),
    committed=ENDS,
    ends=ENDS,
    landed=frozenset({"/landing/b1/a.parquet"}),
    named=frozenset({"/landing/b1/a.parquet", "/landing/b0/gone.parquet"}),
)
NOTHING = np.array([], np.int64)


def in_lake(*more: int) -> Evidence:
    return replace(CLEAN, lake=np.append(CLEAN.lake, more))


PLANTED: list[tuple[str, Callable[[], Evidence], dict[str, int], str]] = [
    ("a loss", lambda: replace(CLEAN, lake=CLEAN.lake[1:]), {"losses": 1}, "lost: number 5 of partition 3"),
    ("all lost", lambda: replace(CLEAN, lake=NOTHING), {"losses": 4}, "lost: number 0 of partition 0"),
    ("a duplicate", lambda: in_lake(record(1, 1)), {"duplicates": 1}, "doubled: number 1 of partition 1"),
    ("tripled", lambda: in_lake(record(1, 1), record(1, 1)), {"duplicates": 2}, "doubled: number 1 of partition 1"),
    ("an uncertain one twice", lambda: in_lake(record(3, 2)), {"duplicates": 1}, "doubled: number 3 of partition 2"),
    ("an aborted record", lambda: in_lake(record(9, 2)), {"strangers": 1}, "strange: number 9 of partition 2"),
    ("another partition's", lambda: in_lake(record(1, 2)), {"strangers": 1}, "strange: number 1 of partition 2"),
    (
        "a lag",
        lambda: replace(CLEAN, ends={**CLEAN.ends, AT[2]: 4}),
        {"lag": 3},
        "lag: numbers-2 is committed at 1 of 4",
    ),
    (
        "a commit beyond the end",
        lambda: replace(CLEAN, committed={**CLEAN.committed, AT[1]: 3}),
        {"lag": 2},
        "lag: numbers-1 is committed at 3 of 1",
    ),
    (
        "never committed",
        lambda: replace(CLEAN, committed={at: ENDS[at] for at in AT[:3]}),
        {"lag": 1},
        "lag: numbers-3 is committed at None of 1",
    ),
    ("an open batch", lambda: replace(CLEAN, open_batches=["b7"]), {"open_batches": 1}, "open: batch b7"),
    (
        "an orphan in the landing",
        lambda: replace(CLEAN, landed=CLEAN.landed | {"/landing/b1/b.parquet"}),
        {"orphans": 1},
        "orphan: /landing/b1/b.parquet",
    ),
    (
        "an orphan in the staging",
        lambda: replace(CLEAN, staged=["/lake/_staging/b1-x"]),
        {"orphans": 1},
        "orphan: /lake/_staging/b1-x",
    ),
]


def test_nothing_is_wrong_where_each_acknowledged_record_is_there_once() -> None:
    assert audit(CLEAN) == Verdict(losses=0, duplicates=0, strangers=0, lag=0, open_batches=0, orphans=0)
    assert audit(CLEAN).is_clean


REJECTS_FIVES = replace(CLEAN, rejects=5, lake=records([1, 2, 3], [1, 0, 2]), dead=records([0, 5], [0, 3]))
LETTERS: list[tuple[str, Evidence, dict[str, int], str]] = [
    ("no dead letter", replace(REJECTS_FIVES, dead=records([5], [3])), {"losses": 1}, "lost: number 0"),
    ("one twice", replace(REJECTS_FIVES, dead=records([5, 0, 0], [3, 0, 0])), {"duplicates": 1}, "doubled: number 0"),
    ("in the lake too", replace(REJECTS_FIVES, lake=CLEAN.lake), {"duplicates": 2, "strangers": 2}, "doubled"),
    ("in the lake instead", replace(CLEAN, rejects=5), {"strangers": 2}, "strange: number 5"),
    ("where none is rejected", replace(REJECTS_FIVES, rejects=0), {"strangers": 2}, "strange: number 0"),
]


def test_what_the_job_rejects_belongs_into_the_dead_letter_topic() -> None:
    assert audit(REJECTS_FIVES).is_clean


@pytest.mark.parametrize(("found", "numbers", "example"), [each[1:] for each in LETTERS], ids=[e[0] for e in LETTERS])
def test_a_dead_letter_that_is_missing_or_misplaced_is_found(
    found: Evidence, numbers: dict[str, int], example: str
) -> None:
    verdict = audit(found)
    assert {name: count for name in numbers if (count := getattr(verdict, name))} == numbers
    assert verdict.examples[0].startswith(example)


GIVES_UP = replace(
    CLEAN, rejects=5, lake=records([3], [2]), rejected=records([5, 0], [3, 0]), given_up=records([1, 2], [1, 0])
)
BURIES = replace(CLEAN, buries_batches=True, lake=records([5, 3], [3, 2]), dead=records([0, 1, 2], [0, 1, 0]))
COUNTS = replace(CLEAN, seen=5)


@pytest.mark.parametrize("found", [GIVES_UP, BURIES, COUNTS])
def test_each_record_is_where_its_strategy_may_have_it(found: Evidence) -> None:
    assert audit(found).is_clean


@pytest.mark.parametrize(
    ("found", "numbers"),
    [
        (replace(GIVES_UP, given_up=records([1], [1])), {"losses": 1}),
        (replace(GIVES_UP, lake=records([3, 1], [2, 1])), {"duplicates": 1}),
        (replace(GIVES_UP, rejected=records([5, 0, 2], [3, 0, 0]), given_up=records([1], [1])), {"strangers": 1}),
        (replace(BURIES, buries_batches=False), {"strangers": 3}),
        (replace(BURIES, dead=records([0, 1], [0, 1])), {"losses": 1}),
        (replace(COUNTS, seen=4), {"losses": 1}),
        (replace(COUNTS, seen=7), {"duplicates": 2}),
    ],
)
def test_a_record_that_its_strategy_may_not_have_there_is_found(found: Evidence, numbers: dict[str, int]) -> None:
    clean = dict.fromkeys(("losses", "duplicates", "strangers", "lag", "open_batches", "orphans"), 0)
    assert {name: getattr(audit(found), name) for name in clean} == clean | numbers


def test_the_verdicts_of_several_subscriptions_add_up() -> None:
    lost, doubled = replace(CLEAN, lake=CLEAN.lake[1:]), in_lake(record(1, 1))
    both = total({"a": audit(lost), "b": audit(doubled), "c": audit(CLEAN)})
    assert (both.losses, both.duplicates, both.lag) == (1, 1, 0)
    assert both.examples == ("a: lost: number 5 of partition 3", "b: doubled: number 1 of partition 1")


@pytest.mark.parametrize("number", [0, 1])
def test_an_uncertain_record_may_be_there_or_not(number: int) -> None:
    lake = records([5, 1, 0, 2, 3, 4][: 4 + number], [3, 1, 0, 0, 2, 2][: 4 + number])
    assert audit(replace(CLEAN, lake=lake)).is_clean


@pytest.mark.parametrize(("what", "found", "numbers", "example"), PLANTED, ids=[planted[0] for planted in PLANTED])
def test_what_was_planted_is_found(
    what: str, found: Callable[[], Evidence], numbers: dict[str, int], example: str
) -> None:
    verdict = audit(found())

    assert not verdict.is_clean, what
    clean = dict.fromkeys(("losses", "duplicates", "strangers", "lag", "open_batches", "orphans"), 0)
    assert {name: getattr(verdict, name) for name in clean} == clean | numbers
    assert verdict.examples[0] == example


def test_of_many_losses_a_few_are_named() -> None:
    numbers = np.arange(1000)
    verdict = audit(replace(CLEAN, acknowledged=records(numbers, numbers % 4), lake=NOTHING))

    assert verdict.losses == 1000
    assert len(verdict.examples) == 20
