"""Delivery over HTTP on a real broker: a server that keeps count sees every record, in order, and few twice."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from broker_world import coordinated
from certificates import Authority
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from desk import PARTITIONS, TIDEGATE, Desk
from hooks import Hook, hooked, say, tls_of

pytestmark = pytest.mark.broker

RECORDS = 40


@pytest.fixture
def name() -> str:
    return f"h{uuid.uuid4().hex[:8]}"


def define(desk: Desk, name: str, uri: str, http: dict[str, Any] | None = None, **top: Any) -> None:
    desk.environment["TIDEGATE_HTTP_ALLOWED"] = "127.0.0.1"
    processing = {"kind": "http", "uri": uri, "output": f"lake/{name}", "delay-on-error.ms": 10, **(http or {})}
    consumer = {"group.id": f"{name}-hook", "auto.offset.reset": "earliest"}
    document = {"topics": [name], "consumer": consumer, "poll-timeout.ms": 3000, "processing": processing, **top}
    desk.define(name, document)


def produce(desk: Desk, name: str, count: int = RECORDS) -> None:
    desk.produce(name, [b"v%d" % n for n in range(count)])


def ran(desk: Desk, name: str, status: int = 0) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(desk.run(TIDEGATE, "run", name, "--json", status=status))
    return said


def committed(desk: Desk, name: str) -> list[int]:
    wanted = [TopicPartition(name, partition) for partition in range(PARTITIONS)]
    asked = ConsumerGroupTopicPartitions(f"{name}-hook", wanted)
    found = coordinated(lambda: desk.admin.list_consumer_group_offsets([asked])[asked.group_id].result(120))
    return [max(0, each.offset) for each in found.topic_partitions]


def letters(desk: Desk, topic: str, count: int) -> list[dict[str, bytes]]:
    consumer = Consumer({**desk.client, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [dict(each.headers() or ()) for each in consumer.consume(count, 30)]
    consumer.close()
    return found


def wait_for(hook: Hook, count: int) -> None:
    until = time.monotonic() + 60
    while len(hook.begun) < count:
        assert time.monotonic() < until, f"{len(hook.begun)} of {count} requests"
        time.sleep(0.005)  # between two looks at what the server has got


def in_order(hook: Hook) -> bool:
    partitions = {partition for partition, _ in hook.begun}
    each = [[offset for at, offset in hook.begun if at == partition] for partition in partitions]
    return all(offsets == sorted(offsets) for offsets in each)


def test_each_record_reaches_the_server_once_and_in_order(desk: Desk, name: str) -> None:
    with hooked() as hook:
        define(desk, name, hook.uri)
        produce(desk, name)
        said = ran(desk, name)
    assert (said["state"], said["records"], said["rejected"]) == ("committed", RECORDS, 0)
    assert Counter(hook.begun) == {(n % PARTITIONS, n // PARTITIONS): 1 for n in range(RECORDS)}
    assert in_order(hook)
    assert {each["status"] for each in desk.rows(f"lake/{name}")} == {200}
    assert hook.headers[0]["QOH-Consumer"] == f"{name}_{name}-hook"


def test_chosen_partitions_are_delivered_too(desk: Desk, name: str) -> None:
    """Which the reference assigns, and never delivers."""
    with hooked() as hook:
        define(desk, name, hook.uri)
        produce(desk, name)
        file = desk.home / "include" / "subscriptions" / f"{name}.yaml"
        file.write_text(file.read_text().replace(f"topics:\n- {name}", f"partitions: {{{name}: [0, 2]}}"))
        said = ran(desk, name)
    assert said["records"] == RECORDS / 2
    assert {partition for partition, _ in hook.begun} == {0, 2}


def test_what_is_not_taken_becomes_a_letter_which_redrive_sends_to_the_same_place(desk: Desk, name: str) -> None:
    is_mended: list[bool] = []

    def answer(handler: BaseHTTPRequestHandler, offset: int) -> None:
        say(handler, 200 if offset != 3 or is_mended else 422, b"no such order")

    with hooked(answer) as hook:
        define(desk, name, hook.uri, {"retry-before-commit": 2}, **{"failure-strategy": "dead-letter-queue"})
        produce(desk, name)
        said = ran(desk, name)
        assert (said["state"], said["rejected"]) == ("committed", PARTITIONS)
        assert Counter(hook.begun)[0, 3] == 3
        (letter, *_) = letters(desk, f"dead-letter-topic-{name}", PARTITIONS)
        assert letter["dead-letter-reason"] == b"HTTP status 422 after 3 attempts: no such order"
        is_mended.append(True)
        hook.begun.clear()
        desk.run(TIDEGATE, "dead-letters", "redrive", name, typed="y\n")
        said = ran(desk, name)
    assert (said["state"], said["records"], said["rejected"]) == ("committed", PARTITIONS, 0)
    assert sorted(partition for partition, _ in hook.begun) == list(range(PARTITIONS))


@pytest.mark.parametrize("strategy", ["after-processing", "throttled"])
def test_after_a_kill_the_next_run_sends_only_what_was_in_flight_again(desk: Desk, name: str, strategy: str) -> None:
    def slow(handler: BaseHTTPRequestHandler, _: int) -> None:
        time.sleep(0.05)
        say(handler, 200)

    with hooked(slow) as hook:
        define(
            desk,
            name,
            hook.uri,
            **{"commit-strategy": strategy, **({"auto.commit.interval.ms": 100} if strategy == "throttled" else {})},
        )
        produce(desk, name, 400)
        with desk.start(TIDEGATE, "run", name) as started:
            wait_for(hook, 200)
            os.kill(started.pid, signal.SIGKILL)
        hook.quiet()
        before = committed(desk, name)
        said = ran(desk, name)
    assert said["state"] == "committed"
    assert committed(desk, name) == [100] * PARTITIONS
    assert (sum(before) > 0) == (strategy == "throttled")
    counts = Counter(hook.begun)
    assert len(counts) == 400
    assert sum(counts.values()) <= 400 + PARTITIONS
    assert in_order(hook)


def test_a_server_that_is_away_costs_no_delivery_and_the_run_says_so(desk: Desk, name: str) -> None:
    with hooked() as hook:
        uri = hook.uri
    define(desk, name, uri, **{"max-retries": 0})
    produce(desk, name)
    for _ in range(2):
        said = ran(desk, name, status=1)
        assert f"{uri.removesuffix('/hook')} can't be reached: nobody takes a connection" in said["error"]
    assert committed(desk, name) == [0] * PARTITIONS
    with hooked() as hook:
        define_again(desk, name, hook.uri)
        assert ran(desk, name)["state"] == "committed"
    assert len(hook.begun) == RECORDS


def define_again(desk: Desk, name: str, uri: str) -> None:
    file = desk.home / "include" / "subscriptions" / f"{name}.yaml"
    lines = [f"  uri: {uri}" if "uri:" in line else line for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines))


def test_an_address_that_is_not_allowed_is_said_by_check_and_by_the_run(desk: Desk, name: str) -> None:
    with hooked() as hook:
        define(desk, name, hook.uri)
        produce(desk, name)
        del desk.environment["TIDEGATE_HTTP_ALLOWED"]
        checked = desk.run(TIDEGATE, "check", "--connect", status=1)
        said = ran(desk, name, status=2)
    for text in (checked.replace("\n", " "), said["error"]):
        assert "isn't an address that anybody can reach" in " ".join(text.split())
    assert hook.begun == []


def test_a_certificate_that_is_not_trusted_is_said_by_check_and_costs_no_delivery(
    desk: Desk, name: str, tmp_path: Path
) -> None:
    with hooked(tls=tls_of(Authority.new("ca"), tmp_path)) as hook:
        define(desk, name, hook.uri, **{"max-retries": 0})
        produce(desk, name)
        checked = desk.run(TIDEGATE, "check", "--connect", status=1)
        errors = [ran(desk, name, status=2)["error"] for _ in range(2)]
    for text in (checked, *errors):
        assert "certificate" in text
        assert "as verify in the extra of the connection" in " ".join(text.split())
    assert hook.begun == []


def test_interrupted_by_ctrl_c_it_ends_at_once_and_goes_on_where_it_was(desk: Desk, name: str) -> None:
    with hooked(lambda handler, _: (time.sleep(0.05), say(handler, 200))[1]) as hook:
        define(desk, name, hook.uri)
        produce(desk, name, 200)
        with desk.start(TIDEGATE, "run", name) as started:
            wait_for(hook, 60)
            started.send_signal(signal.SIGINT)
            assert started.wait(20) == 130
        hook.quiet()
        assert ran(desk, name)["state"] == "committed"
    assert len(set(hook.begun)) == 200
    assert len(hook.begun) <= 200 + PARTITIONS


def test_the_process_is_no_spark(desk: Desk, name: str) -> None:
    with hooked() as hook:
        define(desk, name, hook.uri)
        produce(desk, name)
        text = subprocess.run(
            [TIDEGATE, "run", name],
            cwd=desk.home,
            env={**os.environ, **desk.environment, "TIDEGATE_HOME": str(desk.home)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert "Spark" not in text.stdout + text.stderr
