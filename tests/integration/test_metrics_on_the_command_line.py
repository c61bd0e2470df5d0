"""`tidegate metrics`: OpenMetrics text of real subscriptions, without Airflow."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_world import deliver
from command_line import CommandLine
from confluent_kafka import Producer
from prometheus import promtool
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tidegate.cli.metrics import template
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
Produce = Callable[..., None]


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


def metrics(line: CommandLine, *arguments: str) -> dict[str, float]:
    """Each sample by its name and labels, without the names' beginning."""
    done = line.run("metrics", *arguments)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)


def parsed(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {
        " ".join([sample.name.removeprefix("tidegate_"), *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }


def test_what_kafka_and_the_ledger_say_is_printed_and_kept(
    line: CommandLine, topic: MakeTopic, produce: Produce, broker: Broker
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name)
    with line.pipeline("orders") as pipeline:
        assert deliver(pipeline) is not None
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    an_hour_ago = int((time.time() - 3_600) * 1_000)
    producer.produce(name, value=b"late", timestamp=an_hour_ago)
    producer.flush(120)
    found = metrics(line, "orders")
    assert 3_600 <= found["lag_seconds orders"] < 3_900
    assert found["verdict orders OK"] == found["lag_records orders"] == 1
    assert found["batches_total committed orders"] == found["deliveries_total orders"] == 1
    assert found["landed_records_total committed orders"] == found["rows_total orders"] == 5
    assert found["landed_bytes_total committed orders"] > 0
    assert found["step_seconds_count process orders"] == 1
    assert found["dead_letters_waiting orders"] == 0
    seen_at = found["observation_timestamp_seconds orders"]
    assert abs(time.time() - seen_at) < 300
    assert metrics(line, "--no-observe")["observation_timestamp_seconds orders"] == seen_at
    assert metrics(line)["observation_timestamp_seconds orders"] > seen_at


def test_the_lag_in_time_is_in_the_status_too(line: CommandLine, topic: MakeTopic, broker: Broker) -> None:
    name = topic(2)
    line.define("orders", name)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(name, value=b"late", partition=1, timestamp=int((time.time() - 60) * 1_000))
    producer.flush(120)
    told = json.loads(line.run("status", "orders", "--json").stdout)
    assert 60 <= told["lag_seconds"] < 300
    assert [each["lag_seconds"] for each in told["positions"]] == [0, told["lag_seconds"]]
    assert "the oldest record has waited 0:0" in line.run("status", "orders").stdout


def test_dead_letters_that_wait_are_counted_without_the_markers_of_transactions(
    line: CommandLine, topic: MakeTopic, broker: Broker
) -> None:
    name, letters = topic(), topic()
    line.define("orders", name, **{"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": letters})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": letters})
    producer.init_transactions(30)
    for number in range(2):
        producer.begin_transaction()
        producer.produce(letters, value=b"%d" % number)
        producer.commit_transaction(30)
    assert metrics(line)["dead_letters_waiting orders"] == 2
    assert "2 dead letters wait to be redriven" in line.run("status", "orders").stdout


def test_a_broker_that_is_away_is_a_metric_and_no_failure(line: CommandLine) -> None:
    line.connect("kafka_default", "kafka", **{"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    line.define("orders", "nowhere", **{"poll-timeout.ms": 1000})
    found = metrics(line)
    assert found["verdict orders UNREACHABLE"] == 1
    assert "lag_records orders" not in found
    assert found["oldest_open_batch_seconds orders"] == 0


def test_without_looking_nothing_is_made(line: CommandLine) -> None:
    line.define("orders", "nowhere")
    assert metrics(line, "--no-observe") == {}
    assert not (line.home / "data").exists()


def test_who_names_what_isnt_there_is_told(line: CommandLine) -> None:
    assert line.run("metrics").returncode == 2
    line.define("orders", "nowhere")
    done = line.run("metrics", "parcels")
    assert (done.returncode, done.stdout) == (2, "")
    assert "parcels" in done.stderr


def test_a_ledger_that_doesnt_answer_is_a_failure(line: CommandLine) -> None:
    line.define("orders", "nowhere")
    line.set("TIDEGATE_LEDGER", f"postgresql+psycopg2://me:hunter2@127.0.0.1:{free_port()}/ledger")
    done = line.run("metrics")
    assert (done.returncode, done.stdout) == (1, "")
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize(
    ("option", "file"), [("--rules", "tidegate.rules.yml"), ("--dashboard", "tidegate.dashboard.json")]
)
def test_rules_and_dashboard_are_printed_as_they_are(line: CommandLine, option: str, file: str) -> None:
    done = line.run("metrics", option)
    assert (done.returncode, done.stdout) == (0, template(file))
    assert line.run("metrics", "orders", option).returncode == 2


def test_the_line_for_the_textfile_collector_leaves_a_whole_file(line: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
    (shown,) = [each for each in page.splitlines() if each.startswith("tidegate metrics") and "mv" in each]
    line.define("orders", "nowhere")
    assert "--format prometheus" in shown
    printed = line.run("metrics", "--no-observe", "--format", "prometheus").stdout
    promtool("check", "metrics", given=printed)
    folder = line.home / "textfiles"
    folder.mkdir()
    (folder / "printed").write_text(printed)
    shell = shown.replace("tidegate metrics --format prometheus", "cat printed").replace("/var/lib/node_exporter", ".")
    subprocess.run(["bash", "-c", f"{shell} && rm printed"], check=True, cwd=folder)
    assert [each.name for each in folder.iterdir()] == ["tidegate.prom"]
    assert (folder / "tidegate.prom").read_text() == printed
