"""The Spark lander around its job: what it hands over, what it believes, and what it leaves when the job fails."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.kafka.columns import SCHEMA
from tidegate.landing.requests import ParquetLandingRequests
from tidegate.model.batch import Batch
from tidegate.model.errors import (
    BatchFailedError,
    DeliveryTimeoutError,
    LostDataError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.spark.landing import SparkLander
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics, Record

PLANNED = Range("orders", 0, 1, 4)
BATCH = Batch("b1", "orders", "g", Receipt("i"), (PLANNED,), ((TopicPartition("orders", 0),),), "file:///lake")


class Job:
    """A landing job in this process; `does` gets the order and its folder."""

    def __init__(self, does: Callable[[dict[str, Any], Path], None]) -> None:
        self.does = does
        self.timeouts: list[float | None] = []

    def check(self) -> None:
        """It can always be started."""

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        self.timeouts.append(timeout)
        said("it runs")
        watch()
        order = json.loads(Path(manifest_uri.removeprefix("file://")).read_text())
        folder = Path(order["folder"].removeprefix("file://"))
        folder.mkdir(parents=True)
        self.does(order, folder)


def write(folder: Path, *offsets: int, said: int | None = None) -> None:
    rows = [{"topic": "orders", "partition": 0, "offset": offset} for offset in offsets]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "part-0.parquet")
    (folder / "_result").mkdir()
    (folder / "_result" / "part-0.txt").write_text(json.dumps({"records": len(offsets) if said is None else said}))


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topics = MemoryTopics()
        self.topics.create("orders")
        self.topics.produce("orders", *[Record(b"v")] * 4)

    def lander(self, job: Job) -> SparkLander:
        return SparkLander(
            ParquetLandingRequests(f"file://{self.folder}"), lambda: job, MemorySource(self.topics), 2_000, 300.0
        )

    def left(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file() and "orders/b1/orders" not in str(path)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Unstartable(Job):
    def check(self) -> None:
        raise WrongDefinitionError("spark-submit isn't on PATH")


def test_a_job_that_cannot_be_started_says_why_before_anything_is_written(bench: Bench) -> None:
    with pytest.raises(WrongDefinitionError, match="isn't on PATH"):
        bench.lander(Unstartable(lambda *_: None)).land(BATCH, 0)
    assert list(bench.folder.rglob("*")) == []


def test_what_the_job_left_is_what_landed(bench: Bench) -> None:
    job = Job(lambda _order, folder: write(folder, 1, 3))
    landed = bench.lander(job).land(BATCH, 0)
    assert (landed.ranges, landed.records) == ((PLANNED,), {PLANNED.at: 2})
    assert [file.records for file in landed.files] == [2]
    assert job.timeouts == [300.0]


def test_the_order_has_the_share_and_the_poll_timeout(bench: Bench) -> None:
    orders: list[dict[str, Any]] = []
    bench.lander(Job(lambda order, folder: (orders.append(order), write(folder, 1))[1])).land(BATCH, 0)
    (order,) = orders
    assert order["ranges"] == [{"topic": "orders", "partition": 0, "start": 1, "end": 4}]
    assert order["poll_timeout_ms"] == 2_000


def fail(error: BaseException) -> Callable[[dict[str, Any], Path], None]:
    def does(_order: dict[str, Any], folder: Path) -> None:
        write(folder, 1)
        raise error

    return does


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (fail(BatchFailedError("status 1")), "status 1"),
        (fail(DeliveryTimeoutError("too long")), "too long"),
        (lambda _order, folder: write(folder, 1, said=2), "wrote 2 records, and 1 lie"),
        (lambda _order, folder: write(folder, 0), "wasn't ordered to land"),
        (lambda _order, _folder: None, "left no result"),
    ],
    ids=["it failed", "it overran", "a file is missing", "another record", "no result"],
)
def test_a_job_that_fails_lands_nothing_and_leaves_nothing(
    bench: Bench, does: Callable[[dict[str, Any], Path], None], said: str
) -> None:
    with pytest.raises(UnavailableError, match=f"^nothing was landed, and nothing has changed: .*{said}.*batch b1"):
        bench.lander(Job(does)).land(BATCH, 0)
    assert bench.left() == []


def test_whatever_else_ends_the_job_leaves_nothing_either(bench: Bench) -> None:
    with suppress(KeyboardInterrupt):
        bench.lander(Job(fail(KeyboardInterrupt()))).land(BATCH, 0)
    assert bench.left() == []


def test_a_job_that_failed_because_records_are_gone_is_lost_data(bench: Bench) -> None:
    bench.topics.expire("orders", 3)
    with pytest.raises(LostDataError, match=r"\[3, 4\).*b1, topic orders, partition 0, offset 1"):
        bench.lander(Job(fail(BatchFailedError("offsets out of range")))).land(BATCH, 0)


def test_while_the_broker_is_away_nothing_is_said_to_be_lost(bench: Bench) -> None:
    bench.topics.expire("orders", 3)
    bench.topics.reachable = False
    with pytest.raises(UnavailableError, match="nothing was landed"):
        bench.lander(Job(fail(BatchFailedError("no broker")))).land(BATCH, 0)
