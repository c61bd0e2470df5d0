"""What the client reports instead of a record: ends of partitions, passing trouble, and what can't be mended."""

import logging
import re
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.kafka.verification import why_unverified
from tidegate.model.errors import (
    LostDataError,
    TidegateError,
    UnavailableError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Scalar

END_OF_PARTITION: int = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes begin so

log = logging.getLogger(__name__)

_WATERMARK_SECONDS = 5.0
# librdkafka's own codes begin with an underscore; they are public
_GONE = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001 - see above
)
_UNREADABLE = frozenset(
    {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG}  # noqa: SLF001 - see above
)
_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - see above
        KafkaError._SSL,  # noqa: SLF001 - see above
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
TOPIC_FORBIDDEN: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
"""What a broker answers where the user may not do something with a topic."""

# of use to who knows the client's own code
_WHEN = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed|, [^)]*)?\)")
_ALERT = re.compile(r"SSL alert number \d+")  # what the broker's end of TLS says of the client's
_UNVERIFIED = "certificate verify failed"
_UNSUPPORTED = "Unsupported SASL mechanism"
_UNFETCHED = "Failed to acquire SASL OAUTHBEARER token"


class ClientErrors:
    """Collects what the client reports of brokers and connections; its `on_error` is the client's error_cb.

    `client` is the client's configuration, for the group and for what it trusts. Whoever asks or reads says when it was
    `answered`.
    """

    def __init__(self, client: Mapping[str, Scalar]) -> None:
        self._client = client
        self._refusal: str | None = None
        self._no_token: str | None = None
        self._last: str | None = None
        self._has_answered = False
        self._heard: set[str] = set()

    def on_error(self, error: KafkaError) -> None:
        """Note a report, and log the first of each kind; nothing may be raised here, on the client's behalf."""
        said = _WHEN.sub("", f"{error.name()}: {error.str()}")
        if _UNFETCHED in said:
            self._no_token = said
        else:
            self._last = said
            if error.code() in _REFUSED or error.fatal() or _ALERT.search(said):
                self._refusal = said
        if error.name() not in self._heard:
            self._heard.add(error.name())
            log.warning("the client reports %s", said)

    def answered(self) -> None:
        """Forget what was reported: the broker has answered since, so that no later trouble is put down to it."""
        self._refusal = self._no_token = self._last = None
        self._has_answered = True

    @property
    def last(self) -> str | None:
        """What was reported last, and why there is no token; None if nothing was since the broker answered."""
        no_token = "; ".join(_without_token(self._no_token)) if self._no_token else None
        return "; ".join(each for each in (no_token, self._last) if each) or None

    def check(self) -> None:
        """Raise UnavailableError, with the reason, once broker and client have refused each other.

        A token that can't be had is such a reason until the first answer. After that the client asks for each one long
        before the older one expires, and again every ten seconds: that may pass.
        """
        reason = self._refusal or (None if self._has_answered else self._no_token)
        if reason:
            group = self._client.get("group.id")
            where = location(group=str(group)) if group else ""
            fact, remedy = self._explained(reason)
            raise UnavailableError(message(fact, where, remedy))

    def _explained(self, refusal: str) -> tuple[str, str]:
        """What a refusal means, and what helps."""
        if _UNFETCHED in refusal:
            return _without_token(refusal)
        if _UNVERIFIED in refusal:
            why = why_unverified(refusal, self._client)
            helps = (
                "it must be valid now, name the host that the client comes to, and be signed by an authority in the "
                "connection's ssl.truststore.location"
            )
            return f"the broker's certificate isn't trusted{f' ({why})' if why else ''}: {refusal}", helps
        if _ALERT.search(refusal):
            return (
                f"the broker refuses the client's certificate, or that it has none: {refusal}",
                "look at the connection's ssl.keystore.location, and at what the broker trusts",
            )
        if _UNSUPPORTED in refusal:
            return (
                f"the broker doesn't take the connection's sasl.mechanism: {refusal}",
                "set sasl.mechanism to one that it takes on this listener",
            )
        by_token = self._client.get("sasl.mechanism") == "OAUTHBEARER"
        return (
            f"the broker refuses the client: {refusal}",
            "look at the connection's sasl.oauthbearer properties, at the token endpoint, and at what the broker takes"
            if by_token
            else "look at the connection's user, password, sasl.mechanism and security.protocol",
        )


def _without_token(said: str) -> tuple[str, str]:
    return (
        f"the token endpoint doesn't give a token: {said}",
        "look at the connection's sasl.oauthbearer.token.endpoint.url, client id and secret, and https.ca.location",
    )


def judge(event: Message, consumer: Consumer, position: int) -> TidegateError | None:
    """The error that ends the reading, for an event that isn't the end of a partition; None to go on.

    `position` is the next offset to read there. Going on is right for whatever may pass before the deadline:
    an unknown topic or partition, a leader that moves, a connection that breaks.
    """
    error = event.error()
    at = TopicPartition(event.topic(), event.partition())
    where = location(topic=at.topic, partition=at.partition, offset=position)
    match error.code():
        case code if code in _GONE:
            return LostDataError(
                message(
                    f"the records from here on are gone ({error.str()}): the partition holds "
                    f"{_available(consumer, at)}; they expired, the topic was made anew, or a leader that lacked them "
                    "was elected",
                    where,
                    "the next run says how to go on, or does by on-data-loss",
                )
            )
        case code if code in _UNREADABLE:
            return LostDataError(
                message(
                    f"the record batch here can't be read ({error.str()})",
                    where,
                    f"restore it from a replica; or {pass_over(at, None)}",
                )
            )
        case code if code in _REFUSED or error.fatal():
            return UnavailableError(
                message(f"the broker refuses the client ({error.str()})", where, "look at the connection")
            )
        case code if code in TOPIC_FORBIDDEN:
            return WrongDefinitionError(message(error.str(), where, "grant the connection's user Read on the topic"))
        case _:
            log.warning("%s (%s); trying on until the poll timeout", error.str(), where)
            return None


def pass_over(at: TopicPartition, behind: int | None) -> str:
    """How a person has a group go on behind what can't be read; None where nobody knows at which offset that is."""
    offset = "OFFSET" if behind is None else behind
    return (
        f"go on behind it by `tidegate group reset NAME --to FILE --abandon`, with the line {at.topic},{at.partition},"
        f"{offset} in FILE: records before it that aren't published yet are passed over, too, unless `tidegate replay` "
        "has read them into another output"
    )


def _available(consumer: Consumer, at: TopicPartition) -> str:
    try:
        low, high = consumer.get_watermark_offsets(KafkaPartition(*at), timeout=_WATERMARK_SECONDS)
    except KafkaException:
        return "another range"
    return f"[{low}, {high})"
