from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.audit import Verdict
from chaos.producing import Numbers
from chaos.quiet import Rest
from chaos.report import Report
from chaos.tally import Tally

RESTS = {"numbers": Rest(2, 2)}
CLEAN = Verdict(losses=0, duplicates=0, strangers=0, lag=0, open_batches=0, orphans=0)


def tally() -> Tally:
    counted = Tally()
    for kind in ("task", "broker", "task"):
        counted.killed(kind)
    for batch in ("b1", "b2", "b1"):
        counted.began()
        counted.committed(batch)
    counted.failed("StaleError", "somebody was faster")
    return counted


def report(counted: Tally | None = None) -> Report:
    numbers = Numbers(aborted=3)
    numbers.acknowledge([(256, 0), (512, 1)])
    numbers.doubt([768])
    return Report.of(seed=5, minutes=2.0, tally=counted or tally(), numbers=[numbers], rests=RESTS, verdict=CLEAN)


def test_what_was_counted_is_told() -> None:
    assert report().is_clean
    assert report().to_json() == {
        "seed": 5,
        "minutes": 2.0,
        "kills": {"broker": 1, "task": 2},
        "batches": 2,
        "runs": 3,
        "records": 2,
        "aborted_records": 3,
        "uncertain_records": 1,
        "duplicates": 0,
        "losses": 0,
        "strangers": 0,
        "disorder": 0,
        "repeats": 0,
        "lag": 0,
        "open_batches": 0,
        "orphans": 0,
        "errors": {"StaleError": 1},
        "quiet": {"numbers": "lag 0 after 2 of at most 2 plain runs"},
        "unexpected": 0,
        "problems": [],
        "clean": True,
        "folder": None,
    }
    assert "Quiet phase     numbers: lag 0 after 2 of at most 2 plain runs" in report().lines()
    assert "Kills           3 (1 broker, 2 task)" in report().lines()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rests": {"a": Rest(3, 2)}}, "a: lag 0 after 3 of at most 2 plain runs"),
        ({"rests": {"a": Rest(1, 2, is_settled=False)}}, "a: no lag 0 after 1 of at most 2 plain runs"),
        ({"verdict": replace(CLEAN, losses=1, examples=("lost: number 1",))}, "lost: number 1"),
        ({"unexpected": ("TypeError: None",)}, "TypeError: None"),
    ],
)
def test_whatever_is_wrong_is_told_with_where_to_look(change: dict[str, Any], problem: str) -> None:
    wrong = replace(report(), folder=Path("/chaos"), **change)

    assert not wrong.is_clean
    assert wrong.to_json()["problems"] == [problem]
    assert wrong.lines()[-2:] == [
        f"  {problem}",
        "All is kept in /chaos; the runners' logs are in /chaos/logs.",
    ]


def test_of_many_unexpected_errors_some_of_each_class_are_told() -> None:
    wrong = replace(report(), unexpected=(*(f"StoppedError: {n}" for n in range(150)), "TypeError: None"))

    assert wrong.to_json()["unexpected"] == 151
    assert wrong.problems == (
        "StoppedError: 0",
        "StoppedError: 1",
        "StoppedError: 2",
        "TypeError: None",
        "StoppedError: 147 more",
    )


@pytest.mark.parametrize(
    ("error", "is_ours", "is_expected"),
    [
        ("StaleError", True, True),
        ("OvertakenError", True, True),
        ("RecordsFailedError", True, True),
        ("StoppedError", True, False),
        ("UnavailableError", True, True),
        ("LostDataError", True, False),
        ("GroupInUseError", True, False),
        ("DefinitionError", True, False),
        ("KeyError", False, False),
        ("UnavailableError", False, False),
        ("Died", False, False),
    ],
)
def test_an_error_that_nothing_here_gives_grounds_for_is_a_finding(
    error: str, is_ours: bool, is_expected: bool
) -> None:
    counted = tally()
    counted.failed(error, "why", is_ours=is_ours)

    assert report(counted).is_clean is is_expected
    assert report(counted).unexpected == (() if is_expected else (f"{error}: why",))
