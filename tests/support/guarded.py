"""What tests of TLS and SASL share: certificates, a broker that guards itself, and a subscription on it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from broker_world import committed, deliver, in_lake
from certificates import Authority
from confluent_kafka import OFFSET_INVALID, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from definitions import subscription

from tidegate.config import consumer_properties
from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate.model.subscription import CommitFence, Processing, TopicNames
from tidegate.ports import Connection
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker, Listener
from tidegate_local.loopback import free_port

PASSWORD = "correct horse; \"battery\" = 'staple'"
STORE_PASSWORD = "store-pass"
WITHIN_SECONDS = 12.0
POLL_TIMEOUT_MS = 40_000
USERS = "org.apache.kafka.common.security.plain.PlainLoginModule required user_{}={};"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
"""Whoever comes by PLAINTEXT may do all, others what no rule denies."""


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Keys:
    """A folder of certificates and stores, and the ports of the broker's listeners by name."""

    folder: Path
    ports: dict[str, int]

    def text(self, name: str) -> str:
        """The path of a store."""
        return str(self.folder / name)


def make_keys(folder: Path) -> Keys:
    """Brokers and clients are signed by an authority below the one that is trusted."""
    authority, stranger = Authority.new("authority"), Authority.new("stranger")
    below = authority.below("below")
    authority.write_pem(folder / "ca.pem")
    authority.write_pkcs12(folder / "ca.p12", STORE_PASSWORD)
    stranger.write_pem(folder / "stranger.pem")
    below.sign("broker").write_pem(folder / "broker.pem")
    below.sign("old broker", expired=True).write_pem(folder / "expired.pem")
    below.sign("other broker", hosts=("kafka.example",)).write_pem(folder / "elsewhere.pem")
    below.sign("me").write_pem(folder / "me.pem", STORE_PASSWORD)
    below.sign("me").write_pkcs12(folder / "me.p12", STORE_PASSWORD)
    below.sign("me", expired=True).write_pem(folder / "me-expired.pem")
    stranger.sign("me").write_pem(folder / "me-stranger.pem")
    names = ("TLS", "MUTUAL", "EXPIRED", "ELSEWHERE", "SASL")
    return Keys(folder, {name: free_port() for name in names})


def listeners(keys: Keys) -> list[Listener]:
    def listen(name: str, security: Any, store: str, **more: str) -> Listener:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": keys.text(store)}
        own |= {each.replace("__", "-").replace("_", "."): value for each, value in more.items()}
        return Listener(name, keys.ports[name], keys.ports[name], security, own)

    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": keys.text("ca.pem")}
    sasl = {
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain_sasl_jaas_config": USERS.format("lake", quoted(PASSWORD)),
        "scram__sha__256_sasl_jaas_config": SCRAM,
        "scram__sha__512_sasl_jaas_config": SCRAM,
    }
    return [
        listen("TLS", "SSL", "broker.pem"),
        listen("MUTUAL", "SSL", "broker.pem", ssl_client_auth="required", **trust),
        listen("EXPIRED", "SSL", "expired.pem"),
        listen("ELSEWHERE", "SSL", "elsewhere.pem"),
        listen("SASL", "SASL_SSL", "broker.pem", **sasl),
    ]


def add_user(admin: AdminClient, name: str, password: str) -> None:
    """A user of both kinds of SCRAM."""
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        made = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for answer in admin.alter_user_scram_credentials([made]).values():
            answer.result(120)


def deny(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """Let the user `lake` do all but this."""

    def rule(principal: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(kind, name, ResourcePatternType.LITERAL, principal, "*", operation, permission)

    rules = [
        rule("User:lake", operation, AclPermissionType.DENY),
        rule("User:*", AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    for answer in admin.create_acls(rules).values():
        answer.result(120)
    return rules[0]


def has_coordinator(broker: Broker) -> bool:
    try:
        return committed(broker, "warm-up", ("none", 0)) == [OFFSET_INVALID]
    except KafkaException:
        return False


@dataclass
class Guarded:
    """A subscription on a topic with records, whose connection is what a test says."""

    name: str
    broker: Broker
    settings: Settings
    processor: CopyingProcessor
    fence: CommitFence = "transactional"

    @contextmanager
    def pipeline(
        self, bootstrap: str, extra: dict[str, Any], *, poll_timeout_ms: int = POLL_TIMEOUT_MS, **who: Any
    ) -> Iterator[Pipeline]:
        definition = subscription(
            name=self.name,
            topics=TopicNames((self.name,)),
            poll_timeout_ms=poll_timeout_ms,
            commit_timeout_ms=POLL_TIMEOUT_MS,
            commit_fence=self.fence,
            processing=Processing(f"lake/{self.name}", "spark_default", None, ()),
            consumer={
                "group_id": f"{self.name}-lake",
                "librdkafka": consumer_properties.translate({"group.id": f"{self.name}-lake", "fetch.max.wait.ms": 50}),
            },
        )
        extra = {"bootstrap.servers": bootstrap, **extra}
        kafka = Connection("kafka_default", "kafka", None, None, who.get("login"), who.get("password"), extra)
        with open_pipeline(definition, self.settings, MemoryConnections(kafka), self.processor) as pipeline:
            yield pipeline

    def run(self, bootstrap: str, extra: dict[str, Any], **who: Any) -> None:
        """One run, which commits the three records that are there."""
        with self.pipeline(bootstrap, extra, **who) as pipeline:
            assert deliver(pipeline) is not None
            assert in_lake(pipeline) == [(0, 0), (0, 1), (0, 2)]
        assert committed(self.broker, f"{self.name}-lake", (self.name, 0)) == [3]

    def refused(self, bootstrap: str, extra: dict[str, Any], **who: Any) -> TidegateError:
        """One run, which fails in time; nothing is committed, and no batch is open."""
        began = time.monotonic()
        with pytest.raises(TidegateError) as caught, self.pipeline(bootstrap, extra, **who) as pipeline:
            deliver(pipeline)
        assert time.monotonic() - began < WITHIN_SECONDS
        assert committed(self.broker, f"{self.name}-lake", (self.name, 0)) == [OFFSET_INVALID]
        return caught.value
