"""TLS and SASL on a real broker: the right ones go through, each wrong one is a clear error within seconds.

Whatever is wrong, nothing is committed and nothing is left that hinders the next run with what is right.
"""

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from by_night import one_in
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from guarded import (
    AUTHORIZER,
    PASSWORD,
    SCRAM,
    STORE_PASSWORD,
    Guarded,
    Keys,
    add_user,
    deny,
    has_coordinator,
    listeners,
    make_keys,
    quoted,
)

from tidegate.cli import entry as cli
from tidegate.config.settings import Settings
from tidegate.model.errors import BrokerUnavailableError, TidegateError, UnavailableError, WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security.java import java_client
from tidegate.spark.connect import ConnectProcessor
from tidegate.spark.landing import client_environment
from tidegate.spark.scripts import landing_job
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[Broker]:
    """A broker with a listener of each kind, which asks an authorizer; whoever comes by PLAINTEXT may do all."""
    java = find_java()
    with Broker(
        java=java,
        jars=kafka_jars(java, CACHE),
        data=tmp_path_factory.mktemp("kafka"),
        heap="400m",
        listeners=listeners(keys),
        properties=AUTHORIZER,
    ) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    """Has the user `lake` made."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    add_user(admin, "lake", PASSWORD)
    deadline = time.monotonic() + 60
    while not has_coordinator(broker):
        assert time.monotonic() < deadline, "the broker's first group has no coordinator"
    return admin


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """One ledger for all: its tables are made once."""
    return Settings.from_environment({"TIDEGATE_HOME": str(tmp_path_factory.mktemp("home"))})


@pytest.fixture
def guarded(topic: Callable[..., str], produce: Callable[..., None], broker: Broker, settings: Settings) -> Guarded:
    name = topic()
    produce(name, 3)
    return Guarded(name, broker, settings, CopyingProcessor())


TRUST = {"security.protocol": "SSL", "ssl.truststore.location": "{folder}/ca.pem"}
USER = {"security.protocol": "SASL_SSL", "ssl.truststore.location": "{folder}/ca.pem"}
LAKE = {"login": "lake", "password": PASSWORD}
JAAS = f"org.apache.kafka.common.security.scram.ScramLoginModule required username=lake password={quoted(PASSWORD)};"

RIGHT: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "truststore in PEM": ("TLS", TRUST, {}),
    "truststore in PKCS#12": (
        "TLS",
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": "{folder}/ca.p12",
            "ssl.truststore.password": STORE_PASSWORD,
        },
        {},
    ),
    "librdkafka's name": ("TLS", {"security.protocol": "ssl", "ssl.ca.location": "{folder}/ca.pem"}, {}),
    "keystore in PKCS#12": (
        "MUTUAL",
        {**TRUST, "ssl.keystore.location": "{folder}/me.p12", "ssl.keystore.password": STORE_PASSWORD},
        {},
    ),
    "keystore in PEM": (
        "MUTUAL",
        {**TRUST, "ssl.keystore.location": "{folder}/me.pem", "ssl.key.password": STORE_PASSWORD},
        {},
    ),
    "PLAIN": ("SASL", {**USER, "sasl.mechanism": "PLAIN"}, LAKE),
    "SCRAM-SHA-256": ("SASL", {**USER, "sasl.mechanism": "SCRAM-SHA-256"}, LAKE),
    "SCRAM-SHA-512 by JAAS": ("SASL", {**USER, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}, {}),
}


def filled(keys: Keys, extra: dict[str, str]) -> dict[str, str]:
    return {name: value.replace("{folder}", str(keys.folder)) for name, value in extra.items()}


def at(keys: Keys, listener: str) -> str:
    return f"127.0.0.1:{keys.ports[listener]}"


@pytest.mark.usefixtures("admin")
def test_without_a_transactional_fence_it_is_the_same(guarded: Guarded, keys: Keys) -> None:
    listener, extra, who = RIGHT["SCRAM-SHA-256"]
    guarded.fence = "none"
    guarded.refused(at(keys, listener), filled(keys, extra), login="lake", password="guess")
    guarded.run(at(keys, listener), filled(keys, extra), **who)


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("case", RIGHT)
def test_with_what_is_right_a_run_commits_everything(case: str, guarded: Guarded, keys: Keys) -> None:
    listener, extra, who = RIGHT[case]
    guarded.run(at(keys, listener), filled(keys, extra), **who)


UNTRUSTED = r"the broker's certificate isn't trusted \({why}\): .*group {name}-lake.*ssl\.truststore\.location"
NO_CLIENT = r"the broker refuses the client's certificate, .*group {name}-lake.*ssl\.keystore\.location"
REFUSED = r"the broker refuses the client: .*group {name}-lake.*look at the connection's user, password, sasl"
GUESS = "hush-hush"

Wrong = tuple[str, dict[str, str], dict[str, str], type[TidegateError], str]

WRONG: dict[str, Wrong] = {
    "unknown authority": (
        "TLS",
        {**TRUST, "ssl.truststore.location": "{folder}/stranger.pem"},
        {},
        UnavailableError,
        UNTRUSTED.replace("{why}", "(unable to get|self.signed).*"),
    ),
    "no truststore": (
        "TLS",
        {"security.protocol": "SSL"},
        {},
        UnavailableError,
        UNTRUSTED.replace("{why}", "(unable to get|self.signed).*"),
    ),
    "expired": ("EXPIRED", TRUST, {}, UnavailableError, UNTRUSTED.replace("{why}", "certificate has expired")),
    "another host": (
        "ELSEWHERE",
        TRUST,
        {},
        UnavailableError,
        UNTRUSTED.replace("{why}", ".*certificate is not valid for '127.0.0.1'.*"),
    ),
    "no client certificate": ("MUTUAL", TRUST, {}, UnavailableError, NO_CLIENT),
    "expired client certificate": (
        "MUTUAL",
        {**TRUST, "ssl.keystore.location": "{folder}/me-expired.pem"},
        {},
        UnavailableError,
        NO_CLIENT,
    ),
    "another's client certificate": (
        "MUTUAL",
        {**TRUST, "ssl.keystore.location": "{folder}/me-stranger.pem"},
        {},
        UnavailableError,
        NO_CLIENT,
    ),
    "wrong key password": (
        "MUTUAL",
        {**TRUST, "ssl.keystore.location": "{folder}/me.pem", "ssl.key.password": GUESS},
        {},
        WrongDefinitionError,
        r"kafka_default: ssl\.key\.password isn't the password of the key in .*me\.pem, or the key is damaged",
    ),
    "SASL where none is spoken": ("TLS", {**USER, "sasl.mechanism": "PLAIN"}, LAKE, UnavailableError, REFUSED),
    **{
        f"wrong password by {mechanism}": (
            "SASL",
            {**USER, "sasl.mechanism": mechanism},
            who,
            UnavailableError,
            REFUSED,
        )
        for who in [{"login": "lake", "password": GUESS}]
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    "unknown user": (
        "SASL",
        {**USER, "sasl.mechanism": "SCRAM-SHA-256"},
        {"login": "nobody", "password": GUESS},
        UnavailableError,
        REFUSED,
    ),
    "unknown mechanism": (
        "SASL",
        {
            **USER,
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=me",
        },
        {},
        UnavailableError,
        r"the broker doesn't take the connection's sasl\.mechanism: .*supported mechanisms: .*; set sasl\.mechanism to",
    ),
}


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("case", one_in(2, WRONG))
def test_what_is_wrong_is_said_in_time_and_the_next_run_goes_on(
    case: str, guarded: Guarded, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    listener, extra, who, error, said = WRONG[case]
    refused = guarded.refused(at(keys, listener), filled(keys, extra), **who)
    assert isinstance(refused, error)
    assert not isinstance(refused, BrokerUnavailableError)  # which would be an empty poll
    assert re.search(said.replace("{name}", guarded.name), str(refused)), refused
    shown = caplog.text + "".join(traceback.format_exception(refused))
    assert GUESS not in shown
    assert PASSWORD not in shown
    guarded.run(at(keys, "TLS"), filled(keys, TRUST))


@pytest.mark.parametrize(
    ("listener", "extra"),
    [("TLS", {}), ("PLAINTEXT", TRUST), ("SASL", TRUST)],
    ids=["no TLS where it is spoken", "TLS where none is spoken", "no SASL where it is wanted"],
)
def test_the_wrong_protocol_looks_like_a_broker_that_is_away_and_is_hinted_at(
    listener: str,
    extra: dict[str, str],
    guarded: Guarded,
    keys: Keys,
) -> None:
    """The broker hangs up, as a gateway before one that is away does."""
    bootstrap = guarded.broker.bootstrap_servers if listener == "PLAINTEXT" else at(keys, listener)
    with guarded.pipeline(bootstrap, filled(keys, extra), poll_timeout_ms=1500) as pipeline:
        plan = pipeline.plan()
    assert plan.batch is None
    assert "look at the connection's bootstrap.servers and security.protocol" in plan.why


RIGHTS: dict[str, tuple[ResourceType, str, AclOperation, str]] = {
    "read the topic": (
        ResourceType.TOPIC,
        "{name}",
        AclOperation.READ,
        "describe and read the group and its topics",
    ),
    "describe the topic": (
        ResourceType.TOPIC,
        "{name}",
        AclOperation.DESCRIBE,
        "may not see topic {name} (subscription {name}); let it describe and read the topic",
    ),
    "read the group": (ResourceType.GROUP, "{name}-lake", AclOperation.READ, "describe and read the group"),
    "describe the group": (ResourceType.GROUP, "{name}-lake", AclOperation.DESCRIBE, "describe and read the group"),
    "write the transactional id": (
        ResourceType.TRANSACTIONAL_ID,
        "tidegate-{name}-lake",
        AclOperation.WRITE,
        "write with the transactional id tidegate-{name}-lake; on a cluster without transactions",
    ),
}


def test_a_topic_that_may_not_be_described_is_hidden_and_one_that_may_be_is_missing(
    guarded: Guarded, keys: Keys, admin: AdminClient
) -> None:
    deny(admin, ResourceType.TOPIC, guarded.name, AclOperation.DESCRIBE)
    extra = filled(keys, {**USER, "sasl.mechanism": "SCRAM-SHA-256"})
    with guarded.pipeline(at(keys, "SASL"), extra, **LAKE) as pipeline:
        assert pipeline.source.hidden([guarded.name, f"{guarded.name}-nowhere"]) == {guarded.name}


@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_that_is_missing_is_named_and_granting_it_is_enough(
    right: str, guarded: Guarded, keys: Keys, admin: AdminClient
) -> None:
    kind, name, operation, said = RIGHTS[right]
    connection = (at(keys, "SASL"), filled(keys, {**USER, "sasl.mechanism": "SCRAM-SHA-256"}))
    rule = deny(admin, kind, name.format(name=guarded.name), operation)
    refused = guarded.refused(*connection, **LAKE)
    assert isinstance(refused, WrongDefinitionError), refused
    assert said.format(name=guarded.name) in str(refused)
    wanted = AclBindingFilter(
        kind,
        rule.name,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.DENY,
    )
    for answer in admin.delete_acls([wanted]).values():
        assert answer.result(120)
    guarded.run(*connection, **LAKE)


CANARY = "canary-5f1c"
DEFINITION = """\
connection: kafka_secret
topics: [{name}]
consumer: {{group.id: {name}-lake, auto.offset.reset: earliest}}
poll-timeout.ms: 20000
processing: {{connection: kafka_secret, output: data/lake}}
"""
SECRETS: dict[str, dict[str, str]] = {
    "right": {},
    "wrong password": {"sasl.password": f"{CANARY}-wrong"},
    "broken JAAS": {"sasl.jaas.config": f"{SCRAM[:-1]} username=me password={CANARY}@;"},
    "another module": {"sasl.jaas.config": f'a.B required password="{CANARY}";'},
    "misspelt": {"sasl.pasword": CANARY},
    "no text": {"sasl.password": [CANARY]},  # type: ignore[dict-item]
    "broken key": {"ssl.key.pem": CANARY, "ssl.certificate.pem": CANARY},
}


@pytest.fixture
def canary(admin: AdminClient) -> str:
    """A user whose password is nowhere else."""
    add_user(admin, "canary", CANARY)
    return CANARY


@pytest.mark.parametrize("case", SECRETS)
def test_no_secret_is_in_what_the_command_line_prints_nor_in_any_file(
    case: str,
    guarded: Guarded,
    keys: Keys,
    canary: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The client's own debug lines come by the file descriptor, or by its logger."""
    right = {"sasl.username": "canary", "sasl.password": canary, "sasl.mechanism": "SCRAM-SHA-256"}
    right |= {"debug": "all", "log_level": "7"}
    extra = {"bootstrap.servers": at(keys, "SASL"), **filled(keys, USER), **right, **SECRETS[case]}
    if "sasl.jaas.config" in extra:
        del extra["sasl.username"], extra["sasl.password"]
    monkeypatch.setattr(os, "umask", lambda _: 0)  # for other tests' sake the command line leaves this process its own
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_SECRET", json.dumps({"conn_type": "kafka", "extra": extra}))
    definitions = tmp_path / "include" / "subscriptions"
    definitions.mkdir(parents=True)
    (definitions / "secret.yaml").write_text(DEFINITION.format(name=guarded.name))
    caplog.set_level(logging.DEBUG, "tidegate")  # which the command line changes
    caplog.set_level(logging.DEBUG, "tidegate.kafka.client")
    for arguments in ("check", "run -v secret", "run --json secret", "status secret"):
        monkeypatch.setattr(sys, "argv", ["tidegate", *arguments.split()])
        with pytest.raises(SystemExit):
            cli.main()
    told = "".join([caplog.text, *capfd.readouterr()])
    is_right = case == "right"
    assert bool(list(tmp_path.rglob("*.parquet"))) is is_right
    assert ("has type kafka" in told) is is_right  # which isn't for Spark: the batch fails there
    assert ("= [redacted]" in caplog.text) is (case in {"right", "wrong password"})  # the client said all it can
    assert canary not in told
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or canary.encode() not in path.read_bytes(), path


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    "case",
    one_in(5, ["truststore in PKCS#12", "keystore in PKCS#12", "keystore in PEM", "PLAIN", "SCRAM-SHA-512 by JAAS"]),
)
def test_spark_lands_with_what_is_right(
    case: str, guarded: Guarded, keys: Keys, spark_connect: SparkConnect, tmp_path: Path
) -> None:
    listener, extra, who = RIGHT[case]
    given = {**filled(keys, extra), "bootstrap.servers": at(keys, listener)}
    client = java_client(Connection("kafka_default", "kafka", None, None, who.get("login"), who.get("password"), given))
    order = {
        "format": 1,
        "subscription": "flights",
        "batch_id": "b1",
        "folder": f"file://{tmp_path}/attempt",
        "ranges": [{"topic": guarded.name, "partition": 0, "start": 0, "end": 3}],
        "poll_timeout_ms": 20_000,
    }
    (tmp_path / "order.json").write_text(json.dumps(order))
    said: list[str] = []
    job = ConnectProcessor(spark_connect.url, landing_job(), client_environment(client))
    job.run(f"file://{tmp_path}/order.json", 120, said.append, lambda: None)
    assert "landed 3 records of 1 partitions" in said[-1]
