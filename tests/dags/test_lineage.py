"""What OpenLineage is told: by real runs, with the provider's own listener and its transport into a file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from checkout import PROJECT
from confluent_kafka import Producer
from hooks import hooked, say
from jsonschema import Draft202012Validator
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

from tidegate_airflow.lineage.names import folder_name, output_name, topic_name
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.airflow]

CANARY = "canary-4f1b"
RECORDS = 6  # in each of the two topics
RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.openlineage.plugins.listener import get_openlineage_listener
done = DagBag(sys.argv[1], bundle_path=sys.argv[1], bundle_name="dags-folder").dags["walk"].test()
get_openlineage_listener().executor.shutdown(wait=True)
print(f"the run is {done.state}")
"""
WITHOUT_PROVIDER = """
import importlib.metadata, importlib_metadata, sys
for module in (importlib.metadata, importlib_metadata):
    def others(found=module.distributions, **kwargs):
        return (each for each in found(**kwargs) if "openlineage" not in each.metadata["Name"])
    module.distributions = others
sys.modules["airflow.providers.openlineage"] = None
from airflow.dag_processing.dagbag import DagBag
done = DagBag(sys.argv[1], bundle_path=sys.argv[1], bundle_name="dags-folder").dags["walk"].test()
print(f"the run is {done.state}")
"""

Define = Callable[..., Path]


@dataclass(frozen=True)
class Told:
    """A run's events, in their order; `topics` are the two that it read, `home` is Tidegate's."""

    events: list[dict[str, Any]]
    text: str
    topics: tuple[str, str]
    home: Path
    bootstrap_servers: str

    def of(self, task: str, kind: str) -> list[dict[str, Any]]:
        """The events of this type of a task."""
        return [e for e in self.events if e["job"]["name"] == f"walk.{task}" and e["eventType"] == kind]

    @property
    def output(self) -> tuple[str, str]:
        """The name of the output's dataset."""
        return "file", f"{self.home}/data/lake/walk"

    @property
    def landing(self) -> tuple[str, str]:
        """The name of the landing's dataset."""
        return "file", f"{self.home}/data/landing/walk"


@pytest.fixture
def go(
    broker: Broker, topic: Callable[..., str], define: Define, home: Path, airflow_database: None
) -> Iterator[Callable[[str], Told]]:
    """Runs the DAG `walk` in a process of its own; the first delivery of its batch fails."""
    del airflow_database
    topics = topic(partitions=2), topic(partitions=1)  # three partitions with records, for two members
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for name in topics:
        for number in range(RECORDS):
            partition = number % 2 if name == topics[0] else 0
            producer.produce(name, value=str(number).encode(), partition=partition)
    assert producer.flush(120) == 0
    refused = []

    def answer(handler: BaseHTTPRequestHandler, offset: int) -> None:
        is_first = offset == 0 and handler.headers["QOH-Topic"] == topics[1]
        if is_first and len(refused) < 2:  # a request, and its repetition
            refused.append(offset)
            say(handler, 400)
        else:
            say(handler, 200)

    with hooked(answer) as hook:
        processing = (
            f"{{kind: http, uri: '{hook.uri}', connection: hook, output: data/lake/walk, retry-before-commit: 1, "
            "delay-on-error.ms: 1}"
        )
        define(
            "walk",
            f"topics: [{', '.join(topics)}]\nmembers: 2\n"
            f"consumer: {{group.id: {topics[0]}, auto.offset.reset: earliest}}\n"
            f"poll-timeout.ms: 2000\nmax-retries: 2\nretry-delay.ms: 1\nprocessing: {processing}\n",
        )

        def told(program: str) -> Told:
            events = home / "events.jsonl"
            kafka = {"bootstrap.servers": broker.bootstrap_servers}
            transport = {"type": "file", "log_file_path": str(events), "append": True}
            environment = {
                **os.environ,
                "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "password": CANARY, "extra": kafka}),
                "AIRFLOW_CONN_HOOK": json.dumps({"conn_type": "http", "password": CANARY}),
                "TIDEGATE_HTTP_ALLOWED": "127.0.0.1",
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            }
            done = subprocess.run(
                [sys.executable, "-c", program, PROJECT / "dags"],
                capture_output=True,
                text=True,
                env=environment,
                timeout=240,
                check=False,
            )
            assert "the run is success" in done.stdout, done.stdout + done.stderr
            text = events.read_text("utf-8") if events.exists() else ""
            return Told([*map(json.loads, text.splitlines())], text, topics, home, broker.bootstrap_servers)

        yield told


def names(datasets: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(each["namespace"], each["name"]) for each in datasets}


def statistics(dataset: dict[str, Any]) -> dict[str, Any]:
    """Those of an input or output."""
    kinds = {"inputFacets": "inputStatistics", "outputFacets": "outputStatistics"}
    facet = next(dataset[of][name] for of, name in kinds.items() if of in dataset)
    return {name: value for name, value in facet.items() if not name.startswith("_")}


def batch_of(event: dict[str, Any]) -> dict[str, Any]:
    facet: dict[str, Any] = event["run"]["facets"]["tidegate_batch"]
    return facet


@pytest.mark.broker
def test_each_task_tells_what_it_read_and_wrote_of_which_batch(go: Callable[[str], Told]) -> None:
    told = go(RUN)
    topics = {topic_name(told.bootstrap_servers, name) for name in told.topics}

    landings = told.of("land", "COMPLETE")
    assert len(landings) == 2
    assert {name for event in landings for name in names(event["inputs"])} == topics
    assert sum(statistics(each)["rowCount"] for event in landings for each in event["inputs"]) == 2 * RECORDS
    assert {name for event in landings for name in names(event["outputs"])} == {told.landing}
    landed = list((told.home / "data/landing").rglob("member-*/*.parquet"))
    assert {
        kind: sum(statistics(event["outputs"][0])[kind] for event in landings)
        for kind in ("rowCount", "size", "fileCount")
    } == {
        "rowCount": 2 * RECORDS,
        "size": sum(file.stat().st_size for file in landed),
        "fileCount": len(landed),
    }

    (failed,) = told.of("process", "FAIL")
    assert (names(failed["inputs"]), failed["outputs"]) == ({told.landing}, [])
    assert (batch_of(failed)["outcome"], batch_of(failed)["delivery"]) == ("failed", 1)
    (processed,) = told.of("process", "COMPLETE")
    assert (names(processed["inputs"]), names(processed["outputs"])) == ({told.landing}, {told.output})
    assert statistics(processed["inputs"][0]) == {
        "rowCount": 2 * RECORDS,
        "size": sum(file.stat().st_size for file in landed),
        "fileCount": len(landed),
    }
    assert (batch_of(processed)["outcome"], batch_of(processed)["delivery"]) == ("processed", 2)

    (committed,) = told.of("commit", "COMPLETE")
    assert (names(committed["inputs"]), names(committed["outputs"])) == (topics, {told.output})
    (folder,) = (told.home / "data/lake/walk").glob("batch_id=*")
    published = [file for file in folder.rglob("*.parquet") if "/_" not in str(file.relative_to(folder.parent))]
    manifest = json.loads((folder / "_manifest.json").read_text("utf-8"))
    assert statistics(committed["outputs"][0]) == {
        "rowCount": manifest["rows"],
        "size": sum(file.stat().st_size for file in published),
        "fileCount": len(published),
    }
    facet = batch_of(committed)
    assert facet["batchId"] == folder.name.removeprefix("batch_id=")
    assert (facet["subscription"], facet["group"], facet["outcome"]) == ("walk", told.topics[0], "committed")
    assert facet["receipt"].split()[2:] == [facet["batchId"], str(facet["number"])]
    first, second = told.topics
    assert {(each["topic"], each["partition"]): (each["start"], each["end"]) for each in facet["ranges"]} == {
        (first, 0): (0, RECORDS // 2),
        (first, 1): (0, RECORDS // 2),
        (second, 0): (0, RECORDS),
    }

    assert not {name for event in told.events for name in names(event["inputs"])} - topics - {told.landing}
    assert CANARY not in told.text
    check_events(told.events)


def check_events(events: list[dict[str, Any]]) -> None:
    """Each is an event by the client's own classes, and the batch's facet is as its schema says."""
    schema = json.loads(files("tidegate_airflow.lineage").joinpath("TidegateBatchRunFacet.json").read_text("utf-8"))
    for event in events:
        RunEvent(
            eventTime=event["eventTime"],
            producer=event["producer"],
            eventType=RunState(event["eventType"]),
            run=Run(**event["run"]),
            job=Job(**event["job"]),
            inputs=[InputDataset(**each) for each in event["inputs"]],
            outputs=[OutputDataset(**each) for each in event["outputs"]],
        )
        facet = event["run"]["facets"].get("tidegate_batch")
        if facet is not None:
            Draft202012Validator({"$ref": "#/$defs/TidegateBatchRunFacet", **schema}).validate(facet)
            assert facet["_schemaURL"].startswith(schema["$id"])
            assert facet["_producer"].startswith("urn:tidegate:")


@pytest.mark.nightly
@pytest.mark.broker
def test_without_the_provider_a_run_is_what_it_is(go: Callable[[str], Told]) -> None:
    assert go(WITHOUT_PROVIDER).events == []


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("file:///data/lake/flights", ("file", "/data/lake/flights")),
        ("file:///", ("file", "/")),
        ("s3a://lake/raw/flights/", ("s3://lake", "raw/flights")),
        ("s3://lake", ("s3://lake", "/")),
        ("gs://lake/flights", ("gs://lake", "flights")),
        ("hdfs://etl:s3cret@namenode:8020/lake", ("hdfs://namenode:8020", "/lake")),
        ("abfss://lake@account.dfs.core.windows.net/x", ("abfss://lake@account.dfs.core.windows.net", "/x")),
    ],
)
def test_a_folder_is_named_as_sparks_listener_names_it(uri: str, named: tuple[str, str]) -> None:
    assert folder_name(uri) == named


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ("file:///data/lake/flights", ("file", "/data/lake/flights")),
        ("delta+file:///data/tables/flights", ("file", "/data/tables/flights")),
        ("delta+s3://minio@lake/raw/flights", ("s3://lake", "raw/flights")),
        ("s3://minio@lake/raw", ("s3://lake", "raw")),
        ("iceberg://lake/europe/air/departures", ("iceberg://lake", "europe.air.departures")),
    ],
)
def test_an_output_is_named_by_its_folder_or_in_its_catalog(output: str, named: tuple[str, str]) -> None:
    assert output_name(output) == named


@pytest.mark.parametrize("servers", ["one:9092,two:9092", "SASL_SSL://one:9092, two:9092", " one:9092"])
def test_a_topic_is_named_after_its_first_broker(servers: str) -> None:
    assert topic_name(servers, "flights") == ("kafka://one:9092", "flights")
