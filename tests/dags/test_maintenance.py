"""The DAG tidegate_maintenance: there if a setting says when, and its run maintains tables."""

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from checkout import PROJECT
from pyarrow import fs
from table_benches import DeltaBench, rows_of
from table_publishing import publish_by

pytestmark = pytest.mark.airflow

DEFINITION = """\
topics: [orders]
consumer: {group.id: orders}
processing: {format: delta, output: tables/orders}
"""

Define = Callable[..., Path]


def dags() -> DagBag:
    folder = PROJECT / "dags"
    return DagBag(folder, bundle_path=folder, bundle_name="dags-folder")


@pytest.fixture
def table(home: Path, define: Define) -> DeltaBench:
    """The table of `orders`, of two small files."""
    define("orders", DEFINITION)
    folder = home / "tables/orders"
    bench = DeltaBench(f"delta+file://{folder}", {}, fs.LocalFileSystem(), str(folder))
    for number in (1, 2):
        publish_by(bench.log, bench.table, number, bench.stage(f"b{number}", rows_of(f"b{number}", 1)), ())
    return bench


def maintained() -> DagRun:
    run: DagRun = dags().dags["tidegate_maintenance"].test()
    return run


def test_it_is_there_where_a_setting_says_when(define: Define, monkeypatch: pytest.MonkeyPatch) -> None:
    define("orders", DEFINITION)
    assert "tidegate_maintenance" not in dags().dags
    monkeypatch.setenv("TIDEGATE_MAINTENANCE_SCHEDULE", "@weekly")
    dag = dags().dags["tidegate_maintenance"]
    assert (dag.schedule, dag.max_active_runs, dag.catchup) == ("@weekly", 1, False)


@pytest.mark.usefixtures("airflow_database")
def test_its_run_maintains_the_tables(table: DeltaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_MAINTENANCE_SCHEDULE", "@daily")
    assert maintained().state == "success"
    assert len(table.delta.file_uris()) == 1
    assert table.batches() == ["b1", "b2"]


@pytest.mark.usefixtures("airflow_database")
def test_its_run_fails_for_a_table_that_cant_be_maintained(table: DeltaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_MAINTENANCE_SCHEDULE", "@daily")
    table.delta.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert maintained().state == "failed"
    assert len(table.delta.file_uris()) == 2
