"""Complete is what has no lag and every record of the topic once in the lake."""

import io

import pytest
from rich.console import Console

from tidegate_local.batches import BatchLine
from tidegate_local.dag_runs import Timed
from tidegate_local.flights import Holdings
from tidegate_local.lag import PartitionLag
from tidegate_local.summary import LakeCount, Summary, print_summary


def _summary(*, committed: int | None = 101, rows: int = 97, rejected: int = 3, others: int = 0) -> Summary:
    return Summary(
        subscription="flights",
        runs=[Timed("r1", 12.34)],
        batches=(BatchLine("b1", "committed", 100, 97, 3, 9.0), BatchLine("b2", "abandoned", 5, None, None, None)),
        lags=(PartitionLag("flights", 0, 0, 101, committed),),
        topic=Holdings(departures=100, others=others),
        lake=LakeCount(rows, rejected),
    )


@pytest.mark.parametrize(
    ("changed", "complete"),
    [
        ({}, True),
        ({"committed": 100}, False),
        ({"committed": None}, False),
        ({"rows": 96}, False),
        ({"rows": 98}, False),
        ({"rejected": 0}, False),
        ({"others": 1}, False),
        ({"others": 1, "rows": 98}, True),
    ],
)
def test_complete_only_with_every_record_once_and_no_lag(changed: dict[str, int], complete: bool):
    assert _summary(**changed).complete is complete


def test_only_committed_batches_count_as_landed():
    assert _summary().landed == 100


@pytest.mark.parametrize(("rows", "said"), [(97, False), (90, True)])
def test_the_summary_tells_all_figures_and_what_is_missing(rows: int, said: bool):
    text = io.StringIO()
    print_summary(_summary(rows=rows), Console(file=text, width=200))
    for figure in ("12.3 s from trigger to commit", "1 committed of 2", "100 of 100", f"{rows} (Spark", "3 rejected"):
        assert figure in text.getvalue()
    assert "flights[0]" in text.getvalue()
    assert "Offsets         101, 1 more than records: the end of a transaction takes one in each" in text.getvalue()
    assert ("Not complete" in text.getvalue()) is said
