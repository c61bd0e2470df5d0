"""Every timeout that expires on a real broker does what it promises, seen from the run and from the network.

Faults that end a run anywhere are in test_network_faults.py; here each timeout is held to its own length.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import traffic as kafka
from broker_world import coordinated, deliver, in_lake
from by_night import rows_one_in
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from traffic import Fault, Strike, Traffic

from tidegate.config import consumer_properties
from tidegate.kafka import closing
from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import CommitUnknownError, DeliveryTimeoutError
from tidegate.ports import Lake
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.copying import CopyingProcessor
from tidegate.testing.effects import Effect, watched
from tidegate_local.broker import Broker, Listener
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"
A_LITTLE = 3.0  # seconds that a loaded machine takes on its own
RECORDS = 3

_PAUSE = Event()

OpenSubscription = Callable[..., Pipeline]
Make = Callable[..., Pipeline]
StandsAt = Callable[[Pipeline], int | None]


@pytest.fixture(scope="module")
def road() -> Iterator[Traffic]:
    """The way to the broker, which can be made bad."""
    with Traffic(free_port()) as between:
        yield between


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, road: Traffic) -> Iterator[Broker]:
    """A broker that is reached by the road."""
    java = find_java()
    with Broker(
        java=java,
        jars=kafka_jars(java, CACHE),
        data=tmp_path_factory.mktemp("kafka"),
        heap="400m",
        listeners=[Listener("ROAD", road.target, advertised_port=road.port)],
    ) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


@pytest.fixture
def make(
    topic: Callable[..., str], produce: Callable[..., None], open_subscription: OpenSubscription, road: Traffic
) -> Make:
    """`make(poll=2, commit=3, client={...}, interval=...)`: a subscription by the road, on a topic with records."""

    def begin(
        *,
        name: str | None = None,
        poll: float = 20,
        commit: float = 20,
        client: dict[str, Any] | None = None,
        interval_ms: int = 300_000,
        records: int = RECORDS,
        **values: Any,
    ) -> Pipeline:
        if name is None:
            name = topic()
            produce(name, records)
        given = {"fetch.max.wait.ms": 50, "group.id": f"{name}-lake", **(client or {})}
        consumer = {"librdkafka": consumer_properties.translate(given), "max_poll_interval_ms": interval_ms}
        return open_subscription(
            name,
            bootstrap=f"127.0.0.1:{road.port}",
            consumer=consumer,
            poll_timeout_ms=int(poll * 1000),
            commit_timeout_ms=int(commit * 1000),
            **values,
        )

    return begin


@pytest.fixture
def stands_at(admin: AdminClient) -> StandsAt:
    """The committed offset, as it is: whatever is pending isn't waited for."""

    def ask(pipeline: Pipeline) -> int | None:
        asked = ConsumerGroupTopicPartitions(pipeline.subscription.consumer.group_id)
        found = coordinated(lambda: admin.list_consumer_group_offsets([asked])[asked.group_id].result(120))
        return next((each.offset for each in found.topic_partitions), None)

    return ask


def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        _PAUSE.wait(0.05)


@pytest.mark.parametrize(
    ("records", "fault"),
    rows_one_in(2, [(0, kafka.HEALTHY), (RECORDS, Fault(refuse=True)), (RECORDS, Fault(hold="answer"))]),
    ids=["nothing there", "broker away", "broker silent"],
)
def test_a_poll_timeout_is_an_empty_run_and_no_longer_than_it_says(
    records: int, fault: Fault, make: Make, road: Traffic, stands_at: StandsAt
) -> None:
    pipeline = make(poll=1.5, records=records)
    if not records:
        deliver(pipeline)  # its first contact commits an anchor
    with road.faulty(fault):
        began = time.monotonic()
        plan = pipeline.plan()
        took = time.monotonic() - began
    assert plan.batch is None
    assert 1.4 < took < 1.5 + A_LITTLE
    assert stands_at(pipeline) == (None if records else 0)
    assert bool(deliver(pipeline)) is bool(records)


ALL = [(0, offset) for offset in range(RECORDS)]


def test_a_delivery_that_took_too_long_publishes_and_commits_nothing_and_comes_again(
    make: Make, stands_at: StandsAt, processor: CopyingProcessor
) -> None:
    late = make(interval_ms=1)
    with pytest.raises(
        DeliveryTimeoutError,
        match=r"\(1 ms\): nothing is published .* raise consumer\.max\.poll\.interval\.ms: .* delivered again",
    ):
        deliver(late)
    assert in_lake(late) == []
    assert stands_at(late) == 0
    again = make(name=late.subscription.name)
    batch = deliver(again)
    assert batch is not None
    first, second = processor.delivered
    assert (first["batch_id"], first["files"]) == (second["batch_id"], second["files"])
    assert first["delivery"]["token"] != second["delivery"]["token"]
    assert in_lake(again) == ALL
    assert stands_at(again) == RECORDS


def test_on_receipt_a_delivery_that_took_too_long_goes_on(make: Make, stands_at: StandsAt) -> None:
    late = make(interval_ms=1, commit_strategy="on-receipt")
    run = run_batch(late, lambda _: None)
    assert run.error is None
    assert run.batch is not None
    assert (run.batch.condition, in_lake(late), stands_at(late)) == (Outcome.COMMITTED, ALL, RECORDS)


class CrashAfterPublish:
    """Ends a run when its batch is in the lake and its offsets aren't committed; implements effects.Watcher."""

    def before(self, effect: Effect) -> None:
        pass

    def after(self, effect: Effect) -> None:
        if effect == Effect.of(Lake.publish):
            raise KeyboardInterrupt


def test_what_is_published_is_committed_however_late(
    make: Make, stands_at: StandsAt, processor: CopyingProcessor
) -> None:
    pipeline = make()
    with pytest.raises(KeyboardInterrupt):
        deliver(watched(pipeline, CrashAfterPublish()))
    assert (in_lake(pipeline), stands_at(pipeline)) == (ALL, 0)
    late = make(name=pipeline.subscription.name, interval_ms=1)
    deliver(late)
    assert (in_lake(late), stands_at(late)) == (ALL, RECORDS)
    assert len(processor.delivered) == 1


@pytest.mark.parametrize(
    ("fence", "kind", "held", "stands"),
    [
        ("transactional", kafka.END_TXN, "answer", RECORDS),
        ("none", kafka.OFFSET_COMMIT, "answer", RECORDS),
        ("none", kafka.OFFSET_COMMIT, "request", 0),
    ],
)
def test_a_commit_without_an_answer_stops_the_run_and_the_next_one_finds_out_what_happened(
    fence: str,
    kind: int,
    held: Any,
    stands: int,
    make: Make,
    road: Traffic,
    stands_at: StandsAt,
    processor: CopyingProcessor,
) -> None:
    pipeline = make(commit=1.5, commit_fence=fence)
    with ExitStack() as until_the_end:
        fault = Fault(frozenset({kind}), hold=held)
        strike = Strike(Lake.publish, lambda: until_the_end.enter_context(road.faulty(fault)))
        with pytest.raises(CommitUnknownError, match=r"didn't come .* the next run finds out"):
            deliver(watched(pipeline, strike))
        assert strike.at is not None
        assert time.monotonic() - strike.at < 1.5 + A_LITTLE
        assert stands_at(pipeline) == stands
        road.cut()  # what was held back is lost
    batch = pipeline.ledger.look(pipeline.subscription.name).open
    assert batch is not None
    assert batch.state is State.PUBLISHED
    deliver(make(name=pipeline.subscription.name, poll=1.5))
    assert stands_at(pipeline) == RECORDS
    assert pipeline.ledger.batch(batch.id).outcome is Outcome.COMMITTED
    assert in_lake(pipeline) == ALL
    assert len(processor.delivered) == 1


def test_connections_that_are_idle_are_closed_and_the_run_goes_on(
    make: Make, road: Traffic, stands_at: StandsAt
) -> None:
    pipeline = make(client={"connections.max.idle.ms": 1000})
    plan = pipeline.plan()
    assert plan.batch is not None
    pipeline.land(plan.batch.id, 0)
    before = road.connections
    assert before
    until(lambda: not before & road.connections, "idle connections are still there")
    pipeline.process(plan.batch.id)
    assert isinstance(pipeline.settle(plan.batch.id), Batch)
    assert stands_at(pipeline) == RECORDS


def test_reconnecting_waits_as_long_as_it_is_told_and_goes_on(make: Make, road: Traffic, stands_at: StandsAt) -> None:
    tries = {}
    for backoff in (20, 700):
        pipeline = make(poll=2, client={"reconnect.backoff.ms": backoff, "reconnect.backoff.max.ms": backoff})
        pipeline.source.partitions(pipeline.subscription.topics)
        with road.faulty(Fault(refuse=True)):
            assert pipeline.plan().batch is None
            tries[backoff] = road.struck[-1]
        assert deliver(pipeline) is not None
        assert stands_at(pipeline) == RECORDS
        pipeline.source.close()  # type: ignore[attr-defined]
        pipeline.offsets.close()  # type: ignore[attr-defined]
    assert 0 < tries[700] < 12 < tries[20]


def test_closing_that_hangs_is_given_up_and_changes_no_outcome(
    make: Make, road: Traffic, stands_at: StandsAt, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client waits with its close for the answer to a commit that it was told not to wait for."""
    monkeypatch.setattr(closing, "SECONDS", 1.0)
    pipeline = make(client={"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000})
    batch = deliver(pipeline)
    client = pipeline.source._questions  # type: ignore[attr-defined]
    with road.faulty(Fault(frozenset({kafka.OFFSET_COMMIT, kafka.FIND_COORDINATOR}), hold="request")):
        client.commit(offsets=[TopicPartition(pipeline.subscription.name, 0, 1)], asynchronous=True)
        began = time.monotonic()
        pipeline.source.close()  # type: ignore[attr-defined]
        assert 1.0 <= time.monotonic() - began < 1.0 + A_LITTLE
        assert stands_at(pipeline) == RECORDS
        assert batch is not None
        assert pipeline.ledger.batch(batch.id).outcome is Outcome.COMMITTED
    given_up = [each for each in caplog.records if "closing took longer than 1 s and was given up" in each.message]
    assert [each.levelno for each in given_up] == [logging.WARNING]
