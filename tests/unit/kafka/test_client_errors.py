"""What a client reports of its connections: what ends the work, what may pass, and what is over once it has passed."""

import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from tidegate.kafka import group, outbox, probe, source, watch
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.reader import RangeReader
from tidegate.kafka.watch import WatchClient
from tidegate.model.errors import BrokerUnavailableError, UnavailableError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.records import Outgoing
from tidegate.model.subscription import TopicNames

NO_TOKEN = KafkaError(
    KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: Could not resolve host: idp.example"
)
REFUSED = KafkaError(KafkaError._AUTHENTICATION, "sasl_ssl://b:9093/1: SASL authentication error: bad password")
AWAY = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out"))
TOLD = (
    "the token endpoint doesn't give a token: _AUTHENTICATION: Failed to acquire SASL OAUTHBEARER token: "
    "Could not resolve host: idp.example"
)
REMEDY = "look at the connection's sasl.oauthbearer.token.endpoint.url, client id and secret, and https.ca.location"

Report = Callable[[KafkaError], None]


def test_a_token_that_cannot_be_had_is_the_endpoints_fault_not_the_brokers() -> None:
    errors = ClientErrors({"group.id": "g"})
    errors.on_error(NO_TOKEN)
    with pytest.raises(UnavailableError) as caught:
        errors.check()
    assert str(caught.value) == f"{TOLD} (group g); {REMEDY}"


def test_a_token_endpoint_that_is_not_trusted_is_no_broker_that_is_not() -> None:
    text = "Failed to acquire SASL OAUTHBEARER token: SSL certificate OpenSSL verify result: certificate verify failed"
    errors = ClientErrors({})
    errors.on_error(KafkaError(KafkaError._AUTHENTICATION, text))
    with pytest.raises(UnavailableError, match=r"^the token endpoint doesn't .* verify failed; .*https\.ca\.location$"):
        errors.check()


def test_a_broker_that_refuses_a_token_is_not_told_to_look_at_a_password() -> None:
    errors = ClientErrors({"sasl.mechanism": "OAUTHBEARER"})
    errors.on_error(REFUSED)
    with pytest.raises(
        UnavailableError, match=r"the broker refuses the client: .*; look at .*the token endpoint"
    ) as it:
        errors.check()
    assert "user, password" not in str(it.value)


def test_a_mechanism_that_the_broker_does_not_take_is_told_beside_those_that_it_takes() -> None:
    errors = ClientErrors({"sasl.mechanism": "OAUTHBEARER"})
    text = "handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: PLAIN"
    errors.on_error(KafkaError(KafkaError._AUTHENTICATION, text))
    with pytest.raises(
        UnavailableError,
        match=r"^the broker doesn't take .* mechanisms: PLAIN; set sasl\.mechanism to one that it takes",
    ):
        errors.check()


def test_a_token_that_is_not_renewed_at_once_ends_nothing_once_the_broker_has_answered() -> None:
    errors = ClientErrors({})
    errors.answered()
    errors.on_error(NO_TOKEN)
    errors.check()
    errors.on_error(AWAY)
    assert errors.last == f"{TOLD}; {REMEDY}; _ALL_BROKERS_DOWN: 1/1 brokers are down"
    errors.on_error(REFUSED)
    with pytest.raises(UnavailableError, match="bad password"):
        errors.check()


def test_an_answer_ends_what_was_reported_before() -> None:
    errors = ClientErrors({})
    for each in (NO_TOKEN, REFUSED, AWAY):
        errors.on_error(each)
    errors.answered()
    errors.check()
    assert errors.last is None


class Cluster:
    """Stands in for a client of any kind; it reports what is waiting when it is polled."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self.report = configuration["error_cb"]
        self.waiting: list[KafkaError] = []
        self.is_away = False

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def poll(self, _: float) -> None:
        while self.waiting:
            self.report(self.waiting.pop(0))

    def committed(self, partitions: list[Any], timeout: float) -> list[Any]:  # noqa: ARG002 (the client's)
        return partitions

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Any]:  # noqa: ARG002
        return {each: SimpleNamespace(result=lambda: SimpleNamespace(members=())) for each in groups}

    def list_topics(self, *_: str, timeout: float) -> SimpleNamespace:  # noqa: ARG002 (the client's)
        if self.is_away:
            raise TIMED_OUT
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})}, cluster_id="c")


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> list[Cluster]:
    made: list[Cluster] = []

    def make(_: object, configuration: Mapping[str, Any]) -> Cluster:
        made.append(Cluster(configuration))
        return made[-1]

    for module in (watch, source, group, probe):
        monkeypatch.setattr(module, "create_client", make)
    monkeypatch.setattr(watch, "_LISTED_SECONDS", 0)
    return made


def test_a_client_that_waits_for_days_does_not_tell_of_what_is_long_over(clusters: list[Cluster]) -> None:
    client = WatchClient({})
    (cluster,) = clusters
    for trouble in (NO_TOKEN, REFUSED):
        cluster.waiting = [trouble]
        assert client.partitions(TopicNames(("t",)))
        cluster.is_away = True
        cluster.waiting.append(AWAY)
        with pytest.raises(BrokerUnavailableError) as caught:
            client.partitions(TopicNames(("t",)))
        assert "brokers are down" in str(caught.value)
        assert "_AUTHENTICATION" not in str(caught.value)
        cluster.is_away = False


def test_a_client_that_waits_tells_of_a_token_that_it_does_not_get_any_more(clusters: list[Cluster]) -> None:
    client = WatchClient({})
    (cluster,) = clusters
    assert client.partitions(TopicNames(("t",)))
    cluster.is_away, cluster.waiting = True, [NO_TOKEN]
    for _ in range(2):  # the client reports it once
        with pytest.raises(BrokerUnavailableError, match="the token endpoint doesn't give a token") as caught:
            client.partitions(TopicNames(("t",)))
        assert REMEDY in str(caught.value)
    cluster.is_away = False
    assert client.partitions(TopicNames(("t",)))


def test_a_source_without_any_token_says_so_at_once_and_later_only_when_time_is_up(clusters: list[Cluster]) -> None:
    asking = source.KafkaSource({}, timeout=0)
    assert asking._questions
    (cluster,) = clusters
    cluster.is_away, cluster.waiting = True, [NO_TOKEN]
    with pytest.raises(UnavailableError, match="the token endpoint doesn't") as caught:
        asking.cluster_id()
    assert not isinstance(caught.value, BrokerUnavailableError)
    cluster.is_away = False
    assert asking.cluster_id() == "c"
    asking._cluster_id = None
    cluster.is_away, cluster.waiting = True, [NO_TOKEN]
    with pytest.raises(BrokerUnavailableError, match="the token endpoint doesn't"):
        asking.cluster_id()


@pytest.mark.parametrize(
    ("make", "ask"),
    [
        (lambda: group.Group({}, "g"), lambda asking: asking.members(1)),
        (lambda: group.Group({}, "g"), lambda asking: asking.committed([TopicPartition("t", 0)], 1)),
        (lambda: probe.ClusterProbe({}, 1), lambda asking: asking.partitions()),
    ],
)
@pytest.mark.usefixtures("clusters")
def test_whoever_was_answered_goes_on_without_a_newer_token(
    make: Callable[[], Any], ask: Callable[[Any], object]
) -> None:
    asking = make()
    ask(asking)
    asking._client_errors.on_error(NO_TOKEN)
    asking._client_errors.check()


class Scripted:
    """A consumer of one partition whose answers are known beforehand."""

    def __init__(self, answers: Iterator[list[Message]]) -> None:
        self._answers = answers

    def consume(self, *_: object) -> list[Message]:
        return next(self._answers)

    def assign(self, *_: object) -> None:
        pass

    def incremental_unassign(self, *_: object) -> None:
        pass

    def position(self, partitions: list[Any]) -> list[Any]:
        return partitions


def record(offset: int) -> Message:
    return Message(topic="t", partition=0, offset=offset, key=None, value=b"v", timestamp=(1, 0))


def read(answers: Callable[[Report], Iterator[list[Message]]]) -> int:
    """The number of records that come of [0, 2)."""
    errors = ClientErrors({})
    consumer = cast("Consumer", Scripted(answers(errors.on_error)))
    reader = RangeReader(consumer, [Range("t", 0, 0, 2)], time.monotonic() + 60, errors)
    return sum(chunk.num_rows for chunk in reader)


def test_a_landing_goes_on_without_a_newer_token_as_long_as_the_older_one_serves() -> None:
    def answers(report: Report) -> Iterator[list[Message]]:
        yield [record(0)]
        report(NO_TOKEN)
        yield []
        yield [record(1)]

    assert read(answers) == 2


def test_a_landing_that_gets_no_token_at_all_or_is_refused_ends() -> None:
    def without(report: Report) -> Iterator[list[Message]]:
        report(NO_TOKEN)
        yield []

    def refused(report: Report) -> Iterator[list[Message]]:
        yield [record(0)]
        report(REFUSED)
        yield [record(1)]

    with pytest.raises(UnavailableError, match="the token endpoint doesn't give a token"):
        read(without)
    with pytest.raises(UnavailableError, match=r"the broker refuses the client: .*bad password"):
        read(refused)


def test_what_was_produced_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sender:
        def __init__(self, *_: object) -> None:
            pass

        def send(self, _: object) -> int:
            return 1

    monkeypatch.setattr(outbox, "create_client", lambda _, configuration: Cluster(configuration))
    monkeypatch.setattr(outbox, "RecordSender", Sender)
    box = outbox.KafkaOutbox({}, 1)
    box.send([Outgoing("t", None, None, None, b"v", ())])
    box._client_errors.on_error(NO_TOKEN)
    box._client_errors.check()


@pytest.mark.parametrize(
    "when", ["after 0ms in state CONNECT", "after 2ms in state APIVERSION_QUERY, 30 identical error(s) suppressed"]
)
def test_what_the_client_adds_of_its_own_state_is_left_out_whole(when: str) -> None:
    errors = ClientErrors({})
    errors.on_error(KafkaError(KafkaError._TRANSPORT, f"b:9092/1: Connect to b failed: Connection refused ({when})"))
    assert errors.last == "_TRANSPORT: b:9092/1: Connect to b failed: Connection refused"
