"""Every command of docs/runbook.md, as an operator types it, between real batches.

Those of Airflow are in tests/dags/test_runbook_in_airflow.py. The page's subscription is called orders.
"""

import ast
import json
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from broker_world import in_lake
from by_night import rows_one_in
from command_line import CommandLine
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from documents import ROOT, blocks
from postgres import Postgres, find_programs
from pyspark.sql import SparkSession
from running import until

from tidegate.model.errors import StaleError
from tidegate.monitoring.status import status_of
from tidegate.runtime.run import run_batch
from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
SHORT = {"poll-timeout.ms": 3000}
OF_0_1 = ROOT / "tests/unit/ledger/version_0_1/ledger.sql"
IN_AIRFLOW = ROOT / "tests/dags/test_runbook_in_airflow.py"
RECORDS = 3  # of a batch
COMMANDS = [line for block in blocks("sh") if block.page.name == "runbook.md" for line in block.text.splitlines()]


@dataclass
class Operator:
    """One who types the page's commands in a home with the subscription orders, of a topic of its own."""

    line: CommandLine
    topic: str
    produce: Callable[..., None]
    variables: dict[str, str] = field(default_factory=dict)

    def define(self, name: str = "orders", **properties: Any) -> None:
        consumer = {"group.id": self.line.group("orders"), **properties.pop("consumer", {})}
        self.line.define(name, self.topic, **SHORT | properties, consumer=consumer)

    def type(self, command: str, status: int = 0) -> str:
        """What a command of the page prints; `status` is how it ends."""
        assert command in COMMANDS
        programs = [str(Path(sys.executable).parent), str(find_programs()), os.environ["PATH"]]
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env={**self.line.environment, **self.variables, "PATH": os.pathsep.join(programs)},
            cwd=self.line.home,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == status, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def run(self, name: str = "orders", records: int = RECORDS) -> str:
        """The state that a run leaves its batch in; these records have arrived before."""
        self.produce(self.topic, records)
        with self.line.pipeline(name) as pipeline:
            ran = run_batch(pipeline, lambda _: None)
        assert ran.error is None
        return ran.state

    def open(self, name: str = "orders") -> str:
        """The id of a batch that has landed."""
        self.produce(self.topic, RECORDS)
        with self.line.pipeline(name) as pipeline:
            batch = pipeline.plan().batch
            assert batch is not None
            pipeline.land(batch.id, 0)
            return batch.id

    def lake(self, name: str = "orders") -> list[int]:
        """The offsets in the subscription's output."""
        with self.line.pipeline(name) as pipeline:
            return [offset for _, offset in in_lake(pipeline)]

    def status(self, name: str = "orders") -> Any:
        """As `tidegate status NAME --json` says it."""
        with self.line.pipeline(name) as pipeline:
            return status_of(pipeline, 10).to_json()


@pytest.fixture
def operator(tmp_path: Path, broker: Broker, topic: MakeTopic, produce: Callable[..., None]) -> Operator:
    made = Operator(CommandLine(tmp_path, broker.bootstrap_servers), topic(), produce)
    made.line.connect("spark_default", "spark_connect", "127.0.0.1", 1)
    return made


@pytest.fixture
def database(postgres: Postgres, operator: Operator) -> Iterator[str]:
    """The URL of an empty database of the test's own, which the page calls DATABASE."""
    name = f"runbook_{uuid.uuid4().hex}"
    url = postgres.create_database(name)
    assert url.startswith("postgresql+psycopg2://")
    operator.variables["DATABASE"] = url.replace("+psycopg2", "", 1)
    yield url
    postgres.drop_database(name)


def test_every_command_of_the_page_is_typed_by_a_test() -> None:
    files = (Path(__file__), IN_AIRFLOW)
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    typed = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert [command for command in COMMANDS if command not in typed] == []


@pytest.mark.parametrize(
    ("strategy", "is_open"),
    rows_one_in(3, [("after-processing", True), ("on-receipt", False), ("checkpoint", True)]),
)
def test_a_restored_ledger_that_is_behind_loses_and_doubles_nothing(
    operator: Operator, strategy: str, is_open: bool
) -> None:
    operator.define(**{"commit-strategy": strategy})
    operator.run()
    if is_open:
        operator.open()
    assert ("2 batches" if is_open else "1 batch") in operator.type("tidegate ledger backup backup.db")
    assert [operator.run(records=0 if is_open else RECORDS), operator.run()] == ["committed"] * 2
    operator.type("tidegate ledger restore backup.db --replace")
    told = operator.status()
    assert (told["verdict"], len(told["batches"]), told["moves"]) == ("OK", 2 if is_open else 1, [])
    operator.run()
    for _ in range(3):
        operator.run(records=0)
    assert operator.lake() == list(range(4 * RECORDS))
    told = operator.status()
    assert (told["verdict"], told["lag"], told["moves"]) == ("OK", 0, [])


def test_a_run_over_which_the_ledger_is_restored_fails_and_the_next_one_delivers(operator: Operator) -> None:
    operator.define()
    operator.run()
    operator.type("tidegate ledger backup backup.db")
    batch = operator.open()
    operator.type("tidegate ledger restore backup.db --replace")
    with operator.line.pipeline("orders") as pipeline, pytest.raises(StaleError, match="doesn't know the batch"):
        pipeline.process(batch)
    assert operator.run(records=0) == "committed"
    assert operator.lake() == list(range(2 * RECORDS))


@pytest.mark.postgres
def test_a_ledger_goes_to_postgres_with_its_open_batch_and_comes_back_from_its_dump(
    operator: Operator, database: str
) -> None:
    operator.define()
    operator.run()
    batch = operator.open()
    operator.type("tidegate ledger backup backup.db")
    operator.line.set("TIDEGATE_LEDGER", database)
    operator.type("tidegate ledger restore backup.db")
    operator.type("""pg_dump --format custom --table 'tidegate_*' --file ledger.dump "$DATABASE\"""")
    assert operator.status()["open"]["batch_id"] == batch
    assert [operator.run(records=0), operator.run()] == ["committed"] * 2
    operator.type("""pg_restore --clean --if-exists --single-transaction --dbname "$DATABASE" ledger.dump""")
    assert operator.run() == "committed"
    assert operator.run(records=0) == "nothing"
    assert (operator.lake(), operator.status()["verdict"]) == (list(range(4 * RECORDS)), "OK")


def test_a_lost_ledger_goes_on_where_the_group_is(operator: Operator) -> None:
    operator.define()
    operator.run()
    operator.open()
    (operator.line.home / "data/ledger.db").unlink()
    assert "there is no ledger" in operator.type("tidegate ledger backup backup.db", status=2)
    assert [operator.run(), operator.run(records=0)] == ["committed", "nothing"]
    assert (operator.lake(), operator.status()["verdict"]) == (list(range(3 * RECORDS)), "OK")


def test_a_consumer_of_ones_own_is_taken_over_where_it_has_committed_and_can_go_on(
    operator: Operator, broker: Broker
) -> None:
    operator.define(consumer={"auto.offset.reset": "latest"})
    operator.produce(operator.topic, RECORDS)
    with own_consumer(operator, broker) as consumer:
        assert read(consumer) == list(range(RECORDS))
        assert "has live members, and nothing is committed" in operator.type("tidegate check --connect", status=1)
    operator.produce(operator.topic, RECORDS)
    assert f"{RECORDS} offsets" in operator.type("tidegate plan orders")
    assert operator.run(records=0) == "committed"
    assert operator.lake() == list(range(RECORDS, 2 * RECORDS))
    told = operator.status()
    assert (told["verdict"], told["lag"], told["moves"]) == ("OK", 0, [])
    operator.produce(operator.topic, RECORDS)
    with own_consumer(operator, broker) as consumer:
        assert read(consumer) == list(range(2 * RECORDS, 3 * RECORDS))


@pytest.mark.spark
@pytest.mark.nightly
def test_a_query_of_structured_streaming_is_taken_over_by_what_its_checkpoint_says(
    operator: Operator, broker: Broker, spark_connect: SparkConnect
) -> None:
    operator.define()
    operator.produce(operator.topic, RECORDS)
    checkpoint = operator.line.home / "checkpoint"
    with closing_session(spark_connect) as spark:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        records = source.option("subscribe", operator.topic).option("startingOffsets", "earliest").load()
        write = records.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        write.start(str(operator.line.home / "theirs"), "parquet").awaitTermination()
    newest = max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit())
    (offsets,) = json.loads((checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1]).values()
    lines = [f"{operator.topic},{partition},{offset}\n" for partition, offset in offsets.items()]
    (operator.line.home / "offsets.csv").write_text("".join(lines))
    operator.produce(operator.topic, RECORDS)
    assert operator.line.run("group", "reset", "orders", "--to", "offsets.csv").returncode == 0
    assert operator.run(records=0) == "committed"
    assert operator.lake() == list(range(RECORDS, 2 * RECORDS))


@contextmanager
def closing_session(server: SparkConnect) -> Iterator[SparkSession]:
    spark = server.session()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def own_consumer(operator: Operator, broker: Broker) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": operator.line.group("orders"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([operator.topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer) -> list[int]:
    """The offsets of the records of a batch, which are committed."""
    offsets: list[int | None] = []

    def is_read() -> bool:
        offsets.extend(record.offset() for record in consumer.consume(RECORDS, 0.1))
        return len(offsets) >= RECORDS

    until(is_read, "no records come")
    consumer.commit(asynchronous=False)
    return [offset for offset in offsets if offset is not None]


def test_a_renamed_subscription_takes_its_open_batch_along(operator: Operator) -> None:
    output = {"processing": {"output": "lake/orders"}}
    operator.define(**output)
    operator.run()
    batch = operator.open()
    operator.type("mv include/subscriptions/orders.yaml include/subscriptions/sales.yaml")
    assert "1 fine, 0 errors" in operator.type("tidegate check")
    assert operator.run("sales", records=0) == "committed"
    told = operator.status("sales")
    assert (told["verdict"], told["lag"], len(told["batches"])) == ("OK", 0, 2)
    assert told["batches"][0]["batch_id"] == batch
    assert operator.lake("sales") == list(range(2 * RECORDS))
    (operator.line.subscriptions / "sales.yaml").rename(operator.line.subscriptions / "again.yaml")
    assert (operator.run("again"), len(operator.lake("again"))) == ("committed", 3 * RECORDS)


def test_a_moved_subscription_goes_on(operator: Operator) -> None:
    """Its output first, then its landing, with a batch that is open, then its group."""
    home = operator.line.home
    operator.define()
    operator.run()
    (home / "lake/orders").rename(home / "lake/moved")
    operator.define(processing={"output": "lake/moved"})
    assert (operator.run(), operator.lake()) == ("committed", list(range(2 * RECORDS)))
    operator.open()
    operator.line.set("TIDEGATE_LANDING", str(home / "landing"))
    assert operator.run(records=0) == "committed"
    operator.produce(operator.topic, RECORDS)
    operator.type("tidegate group describe orders --offsets >offsets.csv")
    operator.produce(operator.topic, RECORDS)
    operator.define(processing={"output": "lake/moved"}, consumer={"group.id": f"{operator.topic}-other"})
    told = operator.type('tidegate group reset orders --to offsets.csv --note "goes on for group orders-lake"')
    assert f"to {3 * RECORDS}" in told
    assert "passed over" not in told
    assert "read again" not in told
    assert operator.run() == "committed"
    assert operator.lake() == list(range(6 * RECORDS))
    assert operator.status()["verdict"] == "OK"


def test_a_removed_subscription_leaves_its_output(operator: Operator) -> None:
    operator.define()
    operator.run()
    batch = operator.open()
    definition = operator.line.subscriptions / "orders.yaml"
    kept = definition.read_text()
    operator.type("rm include/subscriptions/orders.yaml")
    assert f"batch {batch} of subscription orders is open" in operator.type("tidegate prune orders --removed", status=1)
    definition.write_text(kept)
    operator.type("tidegate clear orders --answer skip")
    assert "ignored" in operator.type("tidegate run orders")
    assert "has a definition" in operator.type("tidegate prune orders --removed", status=2)
    operator.type("rm include/subscriptions/orders.yaml")
    assert "removed 2 batches" in operator.type("tidegate prune orders --removed")
    assert [path for path in (operator.line.home / "data/landing").rglob("*") if path.is_file()] == []
    definition.write_text(kept)  # a subscription of that name may come again
    told = operator.status()
    assert (told["verdict"], told["batches"], told["lag"]) == ("WARN", [], 0)
    assert "else the next run goes on where the group is" in told["action"]
    operator.type("tidegate run orders")
    assert operator.status()["verdict"] == "OK"
    assert operator.lake() == list(range(RECORDS))


def test_a_ledger_of_version_0_1_goes_on_with_an_open_batch_and_can_be_put_back(
    operator: Operator, admin: AdminClient
) -> None:
    """Of its subscription `planned` [0, 5) is committed and [5, 8) planned; the others have no definition here."""
    home, name, group = operator.line.home, "planned", operator.line.group("orders")
    script = OF_0_1.read_text("utf-8").replace("'planned-lake'", f"'{group}'").replace("///lake", f"//{home}/lake")
    (home / "data").mkdir()
    (home / "lake/orders/_staging").mkdir(parents=True)  # of the batches before, which are elsewhere by now
    with closing(sqlite3.connect(home / "data/ledger.db")) as connection:
        connection.executescript(script)
        connection.execute("UPDATE tidegate_ranges SET topic = ? WHERE topic = ?", (operator.topic, name))
        connection.execute("UPDATE tidegate_positions SET topic = ? WHERE topic = ?", (operator.topic, name))
        connection.execute("DELETE FROM tidegate_topics WHERE subscription = ?", (name,))
        connection.commit()
        asked = "SELECT id, receipt FROM tidegate_batches WHERE subscription = ? AND closed_at IS NULL"
        batch, receipt = connection.execute(asked, (name,)).fetchone()
    operator.define(name)
    operator.produce(operator.topic, 8)
    stands = TopicPartition(operator.topic, 0, 5, receipt)
    (moved,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [stands])]).values()
    assert moved.result(120).topic_partitions[0].error is None

    operator.type("cp data/ledger.db ledger-before-upgrade.db")
    assert f"TIDEGATE_LEDGER=sqlite:///{home}/data/ledger.db" in operator.type("tidegate settings")
    assert "1 fine, 0 errors, 13 warnings" in operator.type("tidegate check")
    assert f"open: batch {batch} is planned" in operator.type("tidegate status")
    assert [operator.run(name, records=0), operator.run(name)] == ["committed"] * 2
    told = operator.status(name)
    assert (told["verdict"], [each["batch_id"] for each in told["batches"]][1]) == ("OK", batch)
    operator.type("cp ledger-before-upgrade.db data/ledger.db")
    assert operator.run(name) == "committed"
    assert operator.run(name, records=0) == "nothing"
    assert [path.name for path in (home / "lake/orders").glob("batch_id=*")] == [f"batch_id={batch}"]
    assert operator.lake(name) == list(range(8, 8 + 2 * RECORDS))
