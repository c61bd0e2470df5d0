"""What a long history costs: a ledger of so many batches, what a run asks of it, and `tidegate status`.

`python benchmarks/histories.py '{"bootstrap": "127.0.0.1:9092", "batches": 1000000}'` prints JSON. The ledger is a
SQLite file; its batches are of one subscription, with three partitions, two files and one delivery each. Seconds are
medians of several questions.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import NullPool, Table, create_engine, insert

from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.tables import batches, deliveries, files, ranges, subscriptions
from tidegate.model.batch import Batch, Landed, LandedFile, Outcome, State
from tidegate.model.offsets import Range
from tidegate.model.receipt import Receipt

NAME, GROUP, TOPIC, PARTITIONS = "orders", "orders-lake", "orders", 3
SIZE = 1_000
ROUNDS = 9
_SINCE = datetime(2026, 1, 1, tzinfo=UTC)
_AT_ONCE = 2_000


def measure(bootstrap: str, number: int) -> dict[str, float]:
    """Seconds of what a run's look, its writes, and `tidegate status` (as a process of its own) cost."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = f"sqlite:///{home / 'ledger.db'}"
        SqlLedger(url)
        _fill(url, number)
        ledger = SqlLedger(url)
        return {
            "look": _seconds(lambda: ledger.look(NAME)),
            "last ends": _seconds(lambda: ledger.last_ends(NAME, GROUP)),
            "batch": median(_batch(ledger, number + 1 + one) for one in range(ROUNDS)),
            "status": _status(home, url, bootstrap),
            "bytes": (home / "ledger.db").stat().st_size,
        }


def _seconds(question: Callable[[], object]) -> float:
    return median(_took(question) for _ in range(ROUNDS))


def _took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _batch(ledger: SqlLedger, number: int) -> float:
    """All that one batch writes, from its opening to its end."""
    began = time.perf_counter()
    batch = ledger.open(_planned(number), ledger.look(NAME).version)
    share = batch.share(0)
    landed = Landed(share, {r.at: r.end - r.start for r in share}, (LandedFile("file:///landing", SIZE, SIZE),))
    ledger.landed(batch.id, 0, landed)
    ledger.start_delivery(batch.id)
    ledger.close(batch.id, Outcome.ABANDONED, "the benchmark has seen enough")
    return time.perf_counter() - began


def _planned(number: int) -> Batch:
    receipt = Receipt("incarnation", number=number)
    planned = tuple(Range(TOPIC, p, number * SIZE, (number + 1) * SIZE) for p in range(PARTITIONS))
    return Batch(
        id=receipt.batch_after(GROUP),
        subscription=NAME,
        group=GROUP,
        receipt=receipt,
        ranges=planned,
        shares=(tuple(r.at for r in planned),),
        output="file:///lake/orders",
    )


def _status(home: Path, url: str, bootstrap: str) -> float:
    definitions = home / "include" / "subscriptions"
    definitions.mkdir(parents=True)
    (definitions / f"{NAME}.yaml").write_text(
        f"schedule: null\ntopics: [{TOPIC}]\nconsumer: {{group.id: {GROUP}, auto.offset.reset: earliest}}\n"
        "processing: {output: lake/orders}\n",
        "utf-8",
    )
    connection = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})
    environment = {
        **os.environ,
        "TIDEGATE_HOME": str(home),
        "TIDEGATE_LEDGER": url,
        "AIRFLOW_CONN_KAFKA_DEFAULT": connection,
    }
    command = [str(Path(sys.executable).with_name("tidegate")), "status", NAME, "--json"]

    def ask() -> None:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        if not json.loads(ended.stdout)["batches"]:
            raise RuntimeError("tidegate status shows no batch")

    return _seconds(ask)


def _fill(url: str, number: int) -> None:
    """Write the rows of so many committed batches as the ledger itself does."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(insert(subscriptions).values(name=NAME, version=number))
        for first in range(1, number + 1, _AT_ONCE):
            found: dict[Table, list[dict[str, Any]]] = {batches: [], ranges: [], files: [], deliveries: []}
            for one in range(first, min(first + _AT_ONCE, number + 1)):
                for table, rows in _rows(one):
                    found[table].extend(rows)
            for table, rows in found.items():
                connection.execute(insert(table), rows)


def _rows(number: int) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    batch = _planned(number)
    at = _SINCE + timedelta(minutes=number)
    token = f"{number:032x}"
    yield (
        batches,
        [
            {
                "id": batch.id,
                "subscription": NAME,
                "number": number,
                "opening": 1,
                "group_id": GROUP,
                "receipt": str(batch.receipt),
                "members": 1,
                "output": batch.output,
                "partition_by": [],
                "commit_strategy": batch.commit_strategy,
                "state": State.CLOSED.value,
                "outcome": Outcome.COMMITTED.value,
                "since": at,
                "offsets_committed": True,
                "winner": token,
                "attempt": token,
                "rows": SIZE,
                "rejected": 0,
                "opened_at": at,
                "landed_at": at,
                "closed_at": at,
            }
        ],
    )
    yield (
        ranges,
        [
            {
                "batch_id": batch.id,
                "topic": r.topic,
                "partition": r.partition,
                "place": place,
                "member": 0,
                "start_offset": r.start,
                "planned_end": r.end,
                "end_offset": r.end,
                "records": r.end - r.start,
            }
            for place, r in enumerate(batch.ranges)
        ],
    )
    yield (
        files,
        [
            {"batch_id": batch.id, "member": 0, "place": place, "uri": f"file:///landing/{token}-{place}.parquet"}
            | {"records": SIZE, "bytes": SIZE}
            for place in range(2)
        ],
    )
    yield (
        deliveries,
        [{"token": token, "batch_id": batch.id, "number": 1, "opening": 1, "started_at": at, "outcome": "processed"}],
    )


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(measure(asked["bootstrap"], asked["batches"])))
