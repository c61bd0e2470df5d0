"""Whatever a page shows for copying works: each block is found here, and run through a delivery or the command line."""

import json
import re
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from certificates import Authority
from desk import PARTITIONS, TIDEGATE, Desk
from documents import OWN_TESTS, ROOT, TEXT, Block, all_blocks, blocks, definition
from hooks import Hook, hooked
from http_registry import HttpRegistry, http_registry

from tidegate.config.airflow_defaults import DEFAULTS_FILE
from tidegate.ports import Connection
from tidegate.security.client import kafka_client
from tidegate.trial.cases import SUFFIX

IN_THE_VOLUME = "/opt/tidegate/data/backup.db"

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS = 12

DEPARTURE = {
    "year": 2013,
    "month": 1,
    "day": 1,
    "carrier": "UA",
    "flight": 1545,
    "origin": "EWR",
    "dest": "IAH",
    "sched_dep_time": 515,
    "dep_delay": 2,
    "time_hour": "2013-01-01T10:00:00Z",
}
VALUES = {
    "flights": json.dumps(DEPARTURE).encode(),
    "prices": b'{"symbol": "NOK", "price": 1.5}',
    "orders_feed": b'{"op": "c", "before": null, "after": {"id": 7, "status": "paid"}}',
}
KEYS = {"orders_feed": b'{"id": 7}'}

KINDS = {"yaml", "python", "toml", "sh", "json", TEXT}


@pytest.fixture
def hook() -> Iterator[Hook]:
    with hooked() as server:
        yield server


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as served:
        yield served


def unique(document: dict[str, Any]) -> dict[str, Any]:
    """The same definition with topics and a group of its own: the pages use some names more than once."""
    mark = f"d{uuid.uuid4().hex[:8]}-"
    document["topics"] = [mark + topic for topic in document["topics"]]
    document["consumer"]["group.id"] = mark + document["consumer"]["group.id"]
    for name in ("delayed-retry-topic.topics",):
        if name in document:
            document[name] = [mark + topic for topic in document[name]]
    if "dead-letter-queue.topic" in document:
        document["dead-letter-queue.topic"] = mark + document["dead-letter-queue.topic"]
    return document


def test_every_block_is_of_a_kind_that_is_tried_here() -> None:
    unknown = [str(block) for block in all_blocks() if not block.is_elsewhere and block.language not in KINDS]
    assert unknown == [], (
        "say what they are: yaml, python, toml, sh, json, text, or another system's, as `json elsewhere`"
    )


def _defaults() -> list[Block]:
    return [block for block in blocks("yaml") if Path(block.file or "").name == DEFAULTS_FILE]


def _definitions() -> list[Block]:
    return [block for block in blocks("yaml") if block not in _defaults() and not (block.file or "").endswith(SUFFIX)]


def _output(processing: dict[str, Any], desk: Desk) -> str:
    """The folder in which the rows will be; the catalog of an Iceberg table is there from now on."""
    if processing.get("format") != "iceberg":
        return str(processing["output"])
    catalog = {"type": "sql", "uri": f"sqlite:///{desk.home}/lake.db", "warehouse": f"file://{desk.home}/warehouse"}
    desk.connect("lake", conn_type="iceberg", extra=catalog)
    return "warehouse"


@pytest.mark.parametrize("block", _definitions(), ids=str)
def test_a_definition_of_the_pages_delivers(block: Block, desk: Desk, registry: HttpRegistry, hook: Hook) -> None:
    name = Path(block.file or "part.yaml").stem
    for module in blocks("python"):
        if module.page == block.page and (module.file or "").startswith(("spark_jobs/", "plugins/")):
            _write(desk.home / str(module.file), module.text)
    for defaults in _defaults():
        if defaults.page == block.page:
            _write(desk.home / str(defaults.file), defaults.text)
    document = unique(definition(block))
    if document["processing"].get("kind") == "http":
        path = urlsplit(document["processing"]["uri"]).path
        document["processing"]["uri"] = hook.uri.removesuffix("/hook") + path
        desk.environment["TIDEGATE_HTTP_ALLOWED"] = "127.0.0.1"
        if connection := document["processing"].get("connection"):
            desk.connect(connection, conn_type="http", password="a token")
    output = _output(document["processing"], desk)
    desk.define(name, document)
    value = VALUES.get(name, b'{"id": 7, "country": "NO"}')
    if "deserialization" in document and "schema-registry" in document["deserialization"]:
        desk.connect("schema_registry_default", conn_type="http", host="http://127.0.0.1", port=registry.port)
        number = registry.register(f"{document['topics'][0]}-value", "AVRO", '"string"')
        value = b"\0" + number.to_bytes(4, "big") + b"\x08Oslo"
    key = KEYS.get(name, (7).to_bytes(8, "big"))
    for each in document["topics"]:
        desk.produce(each, [value] * RECORDS * PARTITIONS, key=key)
    if not {"cursor", "assign-seek"} & document.keys() and document["consumer"].get("auto.offset.reset") != "earliest":
        desk.stand_at_the_beginning(document["consumer"]["group.id"], document["topics"])

    desk.run(TIDEGATE, "check", "--json")
    ran = json.loads(desk.run(TIDEGATE, "run", name, "--json"))

    assert ran["state"] in {"committed", "published", "uncommitted"}
    assert ran["records"] > 0
    rows = 1 if "keys" in document["processing"] else ran["records"]
    assert (ran["rejected"], len(desk.rows(output))) == (0, rows)


def _modules() -> list[tuple[Block, str]]:
    return [(block, transform) for block in blocks("python") for transform in block.transforms]


@pytest.mark.parametrize(("block", "transform"), _modules(), ids=str)
def test_a_transform_of_the_pages_delivers(block: Block, transform: str, desk: Desk) -> None:
    for module in blocks("python"):
        if module.page == block.page and (module.file or "").startswith("spark_jobs/"):
            _write(desk.home / str(module.file), module.text.replace("/srv", str(desk.home)))
    _write(desk.home / "rates" / "today.csv", "")
    body = block.text[block.text.index(f"def {transform}(") :].partition("\ndef ")[0]
    strategy = "throttled" if ".acknowledge(" in body else "checkpoint" if "state=" in body else "after-processing"
    name = f"t{uuid.uuid4().hex[:8]}"
    desk.define(
        name,
        {
            "topics": [name],
            "consumer": {"group.id": f"{name}-lake", "auto.offset.reset": "earliest"},
            "commit-strategy": strategy,
            "failure-strategy": "dead-letter-queue",
            "processing": {"transform": f"{Path(str(block.file)).stem}:{transform}", "output": f"data/lake/{name}"},
        },
    )
    desk.produce(name, [b'{"id": 7, "country": "NO"}', b"junk", None], partitions=1)

    ran = json.loads(desk.run(TIDEGATE, "run", name, "--json"))

    assert (ran["state"], ran["records"], ran["error"]) == ("committed", 3, None)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as written:
        written.write(text)


@pytest.mark.parametrize("block", [b for b in blocks("sh") if "tidegate dead-letters" in b.text], ids=str)
def test_the_commands_about_dead_letters_work(block: Block, desk: Desk) -> None:
    name = f"orders{uuid.uuid4().hex[:8]}"
    queue = f"{name}-dead"
    group = {"group.id": f"{name}-lake"}
    output = {"output": "data/lake/orders"}
    desk.define("orders", {"topics": [name], "consumer": group, "processing": output, "dead-letter-queue.topic": queue})
    desk.make_topic(PARTITIONS, name=f"{name}-repaired")
    headers = {"dead-letter-reason": "no number", "dead-letter-topic": name, "dead-letter-partition": "3"}
    letter = [(key, value.encode()) for key, value in {**headers, "dead-letter-offset": "1"}.items()]
    desk.produce(queue, [b"{}"] * 20, partitions=1, headers=letter)
    for line in _commands(block):
        told = line.replace("--topic orders", f"--topic {name}").replace("orders-repaired", f"{name}-repaired")
        assert desk.run(TIDEGATE, *shlex.split(told)[1:], typed="y\n")


def _other_commands() -> list[Block]:
    return [b for b in blocks("sh") if "tidegate dead-letters" not in b.text and b.page.name not in OWN_TESTS]


@pytest.mark.parametrize("block", _other_commands(), ids=str)
def test_the_other_commands_are_there(block: Block, tmp_path: Path) -> None:
    """Those that start containers or everything else: what they name exists."""
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))["services"]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for line in _commands(block):
        words = [
            word for word in shlex.split(re.sub("[()]", "", line), comments=True) if not re.match(r"[A-Z_]+=", word)
        ]
        match words:
            case [] | ["docker", "compose", "up", *_]:
                pass
            case ["make", target, *_]:
                assert target in targets
            case ["docker", "compose", "exec", service, *command]:
                assert service in services
                if command[0] == "tidegate":
                    assert command[1:] in (["status", "flights"], ["ledger", "backup", IN_THE_VOLUME])
            case ["docker", "compose", "cp", place, "."]:
                service, path = place.split(":")
                assert (service in services, path) == (True, IN_THE_VOLUME)
            case ["umask", "077;", "sh", script, ">", ".env"]:
                made = subprocess.run(["sh", ROOT / script], cwd=tmp_path, capture_output=True, text=True, check=True)
                assert made.stdout.count("=") >= 4
            case ["uv", "pip", "compile", *options]:
                named = [word for word in options if word.startswith(("docker/", "requirements"))]
                assert all((ROOT / word).is_file() for word in named)
            case ["tidegate", "run", "flights"]:
                assert (ROOT / "include" / "subscriptions" / "flights.yaml").is_file()
            case _:
                raise AssertionError(f"nothing tries this: {line}")


def _commands(block: Block) -> list[str]:
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_a_connection_of_the_pages_is_one(block: Block, tmp_path: Path) -> None:
    extra = json.loads(block.text)
    if (store := extra.get("ssl.truststore.location")) is not None:
        extra["ssl.truststore.location"] = str(Authority.new("a root").write_pem(tmp_path / Path(store).name))
    client = kafka_client(Connection("kafka_default", "kafka", None, None, "user", "secret", extra))
    assert client["bootstrap.servers"] == extra["bootstrap.servers"]
