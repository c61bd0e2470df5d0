"""Runs contenders on a broker of its own: each measurement is a fresh process, whose files are counted afterwards."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from contenders.registry import SPARK_COLD, SPARK_WARM, Contender
from records import PARTITIONS, Topic, publish
from tidegate_local.broker import Broker
from tidegate_local.java import Java, find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.spark_kafka_jars import spark_kafka_jars

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
FOREIGN = CACHE / "contenders" / "bin" / "python"
SECONDS = 900
REASON = 80  # letters of an error that a table has room for


class NotMeasuredError(Exception):
    """A contender can't be measured, with the reason; the others can."""


@dataclass(frozen=True)
class Measured:
    """What one run cost, how many records it read, and the bytes of its files."""

    seconds: float
    cpu: float
    peak_mib: float
    records: int
    bytes: int

    @property
    def rate(self) -> float:
        """Records per second of the clock."""
        return self.records / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Records per CPU second."""
        return self.records / self.cpu


@dataclass
class Contest:
    """A broker with the topics that were published to it, and a Spark session once that is asked for."""

    bootstrap: str
    java: Java
    stack: ExitStack
    _spark: subprocess.Popen[str] | None = field(default=None, init=False)

    def publish(self, topic: Topic) -> None:
        """Make and fill a topic."""
        print(f"publishing {topic.records:,} records to {topic.name}", file=sys.stderr)
        publish(topic, self.bootstrap)

    def measure(self, contender: Contender, topic: Topic, each: int | None = None, **more: Any) -> Measured:
        """Let a contender read `each` records of every partition, by default all, and count what it wrote.

        `more` are settings of its program. Raises NotMeasuredError if it can't be run or fails, RuntimeError if it
        landed another number of records, or other columns, than it should.
        """
        _refuse(contender, topic)
        each = each or topic.each_partition
        with tempfile.TemporaryDirectory(prefix="landed-") as into:
            asked = {"bootstrap": self.bootstrap, "topic": topic.name, "partitions": PARTITIONS, "each": each}
            asked |= {**contender.settings, **more}
            if contender.columns:
                asked["into"] = into
            cost = self._warm(asked) if contender is SPARK_WARM else self._run(contender, asked)
            size = _checked(Path(into), contender, each * PARTITIONS) if contender.columns else 0
        measured = Measured(cost["seconds"], cost["cpu"], cost["peak_mib"], each * PARTITIONS, size)
        print(f"{contender.name}, {topic.name}: {cost['seconds']:.2f} s, {cost['cpu']:.2f} CPU s", file=sys.stderr)
        return measured

    def _run(self, contender: Contender, asked: dict[str, Any]) -> dict[str, Any]:
        python = str(FOREIGN) if contender.foreign else sys.executable
        if contender is SPARK_COLD:
            asked |= {"jars": self._jars}
        command = [python, "-m", f"contenders.{contender.program}", json.dumps(asked)]
        try:
            ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise NotMeasuredError(f"it took longer than {SECONDS} s") from error
        if ended.returncode:
            print(ended.stderr, file=sys.stderr)
            last = (ended.stderr.strip().splitlines() or [f"status {ended.returncode}"])[-1]
            raise NotMeasuredError(f"it failed: {last[:REASON]}")
        cost: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return cost

    def _warm(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Ask the session that all measurements share."""
        if self._spark is None:
            self._spark = self._session()
        if self._spark.stdin is None or self._spark.stdout is None:
            raise RuntimeError("Spark's session has no pipes")
        self._spark.stdin.write(json.dumps(asked) + "\n")
        self._spark.stdin.flush()
        answer = self._spark.stdout.readline()
        if not answer:
            raise NotMeasuredError("Spark's session ended")
        cost: dict[str, Any] = json.loads(answer)
        return cost

    def _session(self) -> subprocess.Popen[str]:
        log = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "log"
        command = [sys.executable, "-m", f"contenders.{SPARK_WARM.program}", "warm", self._jars]
        with log.open("w", encoding="utf-8") as file:
            started = subprocess.Popen(
                command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self.stack.callback(started.communicate)  # its input ends, and so does the session
        if started.stdout is None or started.stdout.readline() != "ready\n":
            print(log.read_text("utf-8"), file=sys.stderr)
            raise NotMeasuredError("Spark's session didn't start")
        return started

    @property
    def _jars(self) -> str:
        return ",".join(map(str, spark_kafka_jars(self.java, CACHE)))


@contextmanager
def contest() -> Iterator[Contest]:
    """Start a broker; it and all that was started after it end with the context."""
    java = find_java()
    jars = kafka_jars(java, CACHE)
    properties = {"message.max.bytes": "2000000"}
    with (
        tempfile.TemporaryDirectory() as data,
        Broker(java=java, jars=jars, data=Path(data), properties=properties) as broker,
        ExitStack() as stack,
    ):
        yield Contest(broker.bootstrap_servers, java, stack)


def _refuse(contender: Contender, topic: Topic) -> None:
    if contender.only_json and topic.form != "json":
        raise NotMeasuredError("reads JSON objects only")
    if contender.tool and not shutil.which(contender.tool):
        raise NotMeasuredError(f"{contender.tool} isn't installed")
    if contender.foreign and not FOREIGN.exists():
        raise NotMeasuredError("`make contenders` didn't install it")


def _checked(into: Path, contender: Contender, records: int) -> int:
    """The bytes of the files, if they hold exactly the records and the columns."""
    files = sorted(into.rglob("*.parquet"))
    landed = sum(pq.read_metadata(file).num_rows for file in files)
    if landed != records:
        raise RuntimeError(f"{contender.name} landed {landed:,} records and not {records:,}")
    columns = tuple(pq.read_schema(files[0]).names)
    if columns != contender.columns:
        raise RuntimeError(f"{contender.name} landed the columns {columns} and not {contender.columns}")
    return sum(file.stat().st_size for file in files)
