"""Kafka's consumer properties: Java's names, ranges and defaults, and what each becomes for librdkafka.

The definition speaks Java, because that is what Kafka's documentation speaks; the client underneath is
librdkafka, which renames some properties, lacks some and has other defaults. Where the two differ, Java's
meaning holds, with these exceptions: `isolation.level` is read_committed unless the definition says
otherwise (Java: read_uncommitted), because an aborted record doesn't belong in a lake; and the socket
buffers stay the operating system's unless given (Java: 64 and 128 KiB), which lets it tune them.

Sources: ConsumerConfig of Apache Kafka 4.1, CONFIGURATION.md of librdkafka 2.16.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate.subscription import Scalar

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
LIBRDKAFKA_MESSAGE_MAX_BYTES = 1_000_000  # its default; it wants fetch.max.bytes to be no smaller

NOT_YET = "is not available yet in this version"
_CREDENTIALS = (
    "belongs in the Airflow connection that `connection` names, so that addresses and credentials stay out "
    "of definitions: remove it here"
)
_NO_JOIN = "has no effect: partitions are assigned outright, nobody joins the group: remove it"
_NO_JAVA = "names a Java class, and no Java runs in the consumer: remove it"
_METRICS = "configures the Java client's own metrics, which don't exist here: remove it"


class Kind(Protocol):
    """What a property may hold."""

    def wrong(self, value: object) -> str | None:
        """What is wrong with the value, to be read after the property's name; None if nothing is."""


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds, both included, or one of the others."""

    lowest: int
    highest: int = INT_MAX
    others: tuple[int, ...] = ()

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, int) and not isinstance(value, bool):
            if self.lowest <= value <= self.highest or value in self.others:
                return None
        elif isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            return "must be a number: write it without quotes"
        others = "".join(f", or {other}" for other in self.others)
        return f"must be a whole number from {self.lowest} to {self.highest}{others}"


@dataclass(frozen=True)
class Choice:
    """One of some words; `later` are words that are known and not available yet."""

    words: tuple[str, ...]
    later: tuple[str, ...] = ()

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, str) and value in self.words:
            return None
        allowed = "must be " + " or ".join((", ".join(self.words[:-1]), self.words[-1])).removeprefix(" or ")
        if isinstance(value, str) and value in self.later:
            return f"{allowed}: {value} {NOT_YET}"
        near = nearest(value, self.words + self.later) if isinstance(value, str) else None
        return allowed + (f" (did you mean {near}?)" if near else "")


@dataclass(frozen=True)
class Flag:
    """True or false; with `only`, the one value that can be, and why."""

    only: bool | None = None
    reason: str = ""

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if not isinstance(value, bool):
            return "must be true or false"
        if self.only is not None and value is not self.only:
            return f"can only be {str(self.only).lower()}: {self.reason}"
        return None


@dataclass(frozen=True)
class Text:
    """A line of text that isn't empty and can be printed, and that as a whole matches a pattern."""

    pattern: str = r".+"
    shape: str = "a line of text"

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, str) and value.isprintable() and value.strip():
            if re.fullmatch(self.pattern, value):
                return None
        elif isinstance(value, (int, float)):
            return f"must be {self.shape}: put it in quotes"
        return f"must be {self.shape}"


@dataclass(frozen=True)
class ConsumerProperty:
    """One Java property: what it may hold, its default, and its counterpart.

    default: the value when the definition has none; None: nothing is set, librdkafka's own default holds.
    librdkafka: the name there; None: it has no counterpart, or `translate` decides.
    floor: the smallest value of the counterpart; smaller ones of Java's (0 for "at once", -1 for "as the
    system likes") become it.
    """

    kind: Kind
    default: Scalar | None = None
    librdkafka: str | None = None
    floor: int | None = None


_NEVER_BY_ITSELF = "Tidegate commits a batch's offsets itself, after its processing"

PROPERTIES: Mapping[str, ConsumerProperty] = {
    "group.id": ConsumerProperty(Text(), None, "group.id"),
    "client.id": ConsumerProperty(Text(), None, "client.id"),
    "client.rack": ConsumerProperty(Text(), None, "client.rack"),
    "client.dns.lookup": ConsumerProperty(
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")), None, "client.dns.lookup"
    ),
    "max.poll.records": ConsumerProperty(Whole(1, LONG_MAX), 500),
    "auto.offset.reset": ConsumerProperty(Choice(("earliest", "latest", "none")), "latest"),
    "isolation.level": ConsumerProperty(
        Choice(("read_committed", "read_uncommitted")), "read_committed", "isolation.level"
    ),
    "max.poll.interval.ms": ConsumerProperty(Whole(1, DAY_MS), 300_000, "max.poll.interval.ms"),
    "session.timeout.ms": ConsumerProperty(Whole(1, HOUR_MS), 45_000, "session.timeout.ms"),
    "heartbeat.interval.ms": ConsumerProperty(Whole(1, HOUR_MS), 3_000, "heartbeat.interval.ms"),
    "fetch.max.wait.ms": ConsumerProperty(Whole(0, 300_000), 500, "fetch.wait.max.ms"),
    "fetch.min.bytes": ConsumerProperty(Whole(0, 100_000_000), 1, "fetch.min.bytes", floor=1),
    "fetch.max.bytes": ConsumerProperty(Whole(0, 2_147_483_135), 52_428_800, "fetch.max.bytes", floor=1000),
    "max.partition.fetch.bytes": ConsumerProperty(
        Whole(0, 1_000_000_000), 1_048_576, "max.partition.fetch.bytes", floor=1
    ),
    "connections.max.idle.ms": ConsumerProperty(
        Whole(1, INT_MAX, others=(-1,)), 540_000, "connections.max.idle.ms", floor=0
    ),
    "socket.connection.setup.timeout.ms": ConsumerProperty(Whole(1000), 10_000, "socket.connection.setup.timeout.ms"),
    "socket.connection.setup.timeout.max.ms": ConsumerProperty(Whole(1000), 30_000),
    "reconnect.backoff.ms": ConsumerProperty(Whole(0, HOUR_MS), 50, "reconnect.backoff.ms"),
    "reconnect.backoff.max.ms": ConsumerProperty(Whole(0, HOUR_MS), 1_000, "reconnect.backoff.max.ms"),
    "retry.backoff.ms": ConsumerProperty(Whole(0, 300_000), 100, "retry.backoff.ms", floor=1),
    "retry.backoff.max.ms": ConsumerProperty(Whole(0, 300_000), 1_000, "retry.backoff.max.ms", floor=1),
    "metadata.max.age.ms": ConsumerProperty(Whole(0, HOUR_MS), 300_000, "topic.metadata.refresh.interval.ms", floor=1),
    "metadata.recovery.strategy": ConsumerProperty(Choice(("rebootstrap", "none")), None, "metadata.recovery.strategy"),
    "metadata.recovery.rebootstrap.trigger.ms": ConsumerProperty(
        Whole(0), None, "metadata.recovery.rebootstrap.trigger.ms"
    ),
    "request.timeout.ms": ConsumerProperty(Whole(10, 300_000), 30_000, "socket.timeout.ms"),
    "receive.buffer.bytes": ConsumerProperty(Whole(-1, 100_000_000), None, "socket.receive.buffer.bytes", floor=0),
    "send.buffer.bytes": ConsumerProperty(Whole(-1, 100_000_000), None, "socket.send.buffer.bytes", floor=0),
    "enable.metrics.push": ConsumerProperty(Flag(), None, "enable.metrics.push"),
    "enable.auto.commit": ConsumerProperty(Flag(only=False, reason=_NEVER_BY_ITSELF)),
    "allow.auto.create.topics": ConsumerProperty(
        Flag(only=False, reason="a topic that is missing is an empty poll, never created")
    ),
    "check.crcs": ConsumerProperty(Flag(only=True, reason="a damaged record must not reach the lake")),
    "group.protocol": ConsumerProperty(Choice(("classic",))),
    "partition.assignment.strategy": ConsumerProperty(
        Choice(("range", "org.apache.kafka.clients.consumer.RangeAssignor"))
    ),
}

REFUSED: Mapping[str, str] = {
    "bootstrap.servers": _CREDENTIALS,
    "security.protocol": _CREDENTIALS,
    "security.providers": _NO_JAVA,
    "config.providers": _NO_JAVA,
    "interceptor.classes": _NO_JAVA,
    "metric.reporters": _NO_JAVA,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "key.deserializer": f"{NOT_YET}: records land as bytes, and the transform decodes them",
    "value.deserializer": f"{NOT_YET}: records land as bytes, and the transform decodes them",
    "auto.commit.interval.ms": NOT_YET,
    "exclude.internal.topics": NOT_YET,
    "group.instance.id": _NO_JOIN,
    "group.remote.assignor": _NO_JOIN,
    "internal.leave.group.on.close": _NO_JOIN,
    "default.api.timeout.ms": "has no counterpart: request.timeout.ms and poll-timeout.ms bound the calls",
}
_REFUSED_FAMILIES = {"sasl.": _CREDENTIALS, "ssl.": _CREDENTIALS, "share.": _NO_JOIN}

_ALWAYS: Mapping[str, Scalar] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    "check.crcs": True,
    "auto.offset.reset": "error",
    "group.protocol": "classic",
    "partition.assignment.strategy": "range",
}


def refusal(name: str) -> str | None:
    """Why a known consumer property can't be given, to be read after its name; None if it isn't refused."""
    families = (reason for prefix, reason in _REFUSED_FAMILIES.items() if name.startswith(prefix))
    return REFUSED.get(name) or next(families, None)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a mistaken one, None if nothing is like it."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def effective(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The properties under their Java names with every default filled in; `given` must be valid."""
    values = {name: known.default for name, known in PROPERTIES.items() if known.default is not None}
    values.update(given)
    if "reconnect.backoff.ms" in given and "reconnect.backoff.max.ms" not in given:
        values["reconnect.backoff.max.ms"] = given["reconnect.backoff.ms"]  # as Java does
    return values


def translate(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The librdkafka configuration that means what `given` (valid, Java's names) means to the Java consumer.

    Without addresses and credentials, which the connection adds. `max.poll.records` and
    `socket.connection.setup.timeout.max.ms` have no counterpart: the first bounds the plan, the second is
    only compared with the other timeouts.
    """
    client: dict[str, Scalar] = {}
    for name, value in effective(given).items():
        known = PROPERTIES[name]
        if known.librdkafka is not None:
            client[known.librdkafka] = _at_least(known.floor, value)
    for first, most in (
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("retry.backoff.ms", "retry.backoff.max.ms"),
    ):
        client[most] = max(int(client[first]), int(client[most]))  # librdkafka refuses a maximum below
    if int(client["fetch.max.bytes"]) < LIBRDKAFKA_MESSAGE_MAX_BYTES:
        client["message.max.bytes"] = client["fetch.max.bytes"]
    return client | dict(_ALWAYS)


def _at_least(floor: int | None, value: Scalar) -> Scalar:
    return max(floor, value) if floor is not None and isinstance(value, int) else value
