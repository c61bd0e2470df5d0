"""A failure strategy of another package, as decision 32 has it: built, installed and named in a definition."""

import json
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from desk import TIDEGATE, Desk
from documents import blocks

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def installed(folder: Path) -> Path:
    """The package of the page, built as a wheel and unpacked, as pip installs it."""
    source, site = folder / "acme", folder / "site"
    source.mkdir()
    (module,) = [block for block in blocks("python") if block.file == "acme_lake.py"]
    (project,) = blocks("toml")
    (source / "acme_lake.py").write_text(module.text)
    (source / "pyproject.toml").write_text(project.text)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=source, check=True)
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def test_it_decides_which_records_become_dead_letters(desk: Desk, topic: Callable[..., str], tmp_path: Path) -> None:
    dead = topic()
    name = f"own{uuid.uuid4().hex[:8]}"
    file = desk.define(
        name,
        {
            "topics": [name],
            "consumer": {"group.id": f"{name}-lake", "auto.offset.reset": "earliest", "value.deserializer": "integer"},
            "failure-strategy": "dead-letter-queue",
            "dead-letter-queue.topic": dead,
            "fail-on-deserialization-failure": False,
            "processing": {"output": f"data/lake/{name}"},
        },
    )
    file.write_text(file.read_text().replace("dead-letter-queue\n", "acme.keep-real\n"))
    desk.produce(name, [b"\0\0\0\1"], partitions=1)
    desk.produce(name, [b"junk!", b"junk?"], key=b"test-1", partitions=1)
    desk.produce(name, [b"junk."], key=b"order-1", partitions=1)

    checked = desk.run(TIDEGATE, "check", status=1)
    assert "failure-strategy names a strategy that no installed package registers" in checked

    desk.environment["PYTHONPATH"] = str(installed(tmp_path))
    desk.run(TIDEGATE, "check")
    module = tmp_path / "site/acme_lake.py"
    right = module.read_text()
    module.write_text(right.replace("DeadLetters", "DeadLetter"))
    assert "failure-strategy acme.keep-real failed: ImportError" in desk.run(TIDEGATE, "check", status=1)
    module.write_text(right)
    ran = json.loads(desk.run(TIDEGATE, "run", name, "--json"))
    assert (ran["state"], ran["records"], ran["rejected"]) == ("committed", 4, 3)
    assert [value for _, value in letters(desk, dead)] == [b"junk."]


def letters(desk: Desk, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            **desk.client,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    consumer.close()
    return found
