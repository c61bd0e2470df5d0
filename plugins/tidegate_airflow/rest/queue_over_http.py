"""A subscription as Queue-Over-Http's clients POST it, and the definition that it is here."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tidegate_airflow.rest.refused import RefusedError

_DELIVERY_MS = 23 * 3_600_000
_IDLE_MS = 24 * 3_600_000  # longer than a delivery: rule R2
Names = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    """A part of the body; a name that the reference doesn't know is refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Group(_Part):
    """The consumer group."""

    id: Names
    name: str = ""


class Partition(_Part):
    """A partition that is assigned by hand."""

    number: Annotated[int, Field(ge=0)]


class TopicConfig(_Part):
    """How a topic's records are sent and committed."""

    concurrencyFactor: Annotated[int, Field(ge=1)] = 1  # noqa: N815 (the reference's names, here and below)
    autoCommitPeriodMs: Annotated[int, Field(ge=0)] = 0  # noqa: N815


class Topic(_Part):
    """A topic, or a pattern of topics' names."""

    name: Names
    partitions: tuple[Partition, ...] = ()
    pattern: bool = False
    config: TopicConfig = TopicConfig()


class SubscriptionMethod(_Part):
    """Where records are sent, and how."""

    uri: Names
    type: Literal["http"] = "http"
    delayOnErrorMs: Annotated[int, Field(ge=0)] = 0  # noqa: N815
    retryBeforeCommit: Annotated[int, Field(ge=0)] = 0  # noqa: N815
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    queryParamKey: str = "message"  # noqa: N815
    charset: str | None = None
    additionalHeaders: dict[str, str] = {}  # noqa: N815 (pydantic copies it)


class Consumer(_Part):
    """The whole body."""

    id: Names
    group: Group
    broker: Names
    topics: tuple[Topic, ...]
    subscriptionMethod: SubscriptionMethod  # noqa: N815

    @model_validator(mode="after")
    def _is_one_subscription(self) -> Self:
        """One selection of topics and one config for them all: what a definition can say."""
        if not self.topics:
            raise ValueError("topics: name at least one")
        if any(topic.pattern for topic in self.topics) and len(self.topics) > 1:
            raise ValueError("topics: a pattern stands alone")
        if any(topic.pattern and topic.partitions for topic in self.topics):
            raise ValueError("topics: a pattern has no partitions")
        if any(topic.partitions for topic in self.topics) and not all(topic.partitions for topic in self.topics):
            raise ValueError("topics: give partitions for every topic, or for none")
        if len({topic.name for topic in self.topics}) < len(self.topics):
            raise ValueError("topics: a topic is named twice")
        if len({topic.config for topic in self.topics}) > 1:
            raise ValueError("topics: give each topic the same config, or subscribe to them one by one")
        return self

    def definition(self) -> dict[str, Any]:
        """The definition that this is; its name is `id`.

        A record is done with after its last attempt, whatever came of it, and the next run begins when one has ended.
        A delivery may take 23 hours: a server that is down is asked again until then, and stops nothing.
        """
        config, method = self.topics[0].config, self.subscriptionMethod
        period = config.autoCommitPeriodMs
        throttled = {"commit-strategy": "throttled", "auto.commit.interval.ms": period} if period else {}
        headers = {"headers": method.additionalHeaders} if method.additionalHeaders else {}
        return {
            "description": self.group.name,
            "schedule": "@continuous",
            "connection": self.broker,
            **_selection(self.topics),
            "consumer": {
                "group.id": self.group.id,
                "value.deserializer": "string",
                "max.poll.interval.ms": _DELIVERY_MS,
                "connections.max.idle.ms": _IDLE_MS,
            },
            **throttled,
            "max-retries": 0,
            "failure-strategy": "ignore",
            "processing": {
                "kind": "http",
                "uri": method.uri,
                "method": method.method,
                "query-param-key": method.queryParamKey,
                "concurrency-factor": config.concurrencyFactor,
                "delay-on-error.ms": method.delayOnErrorMs,
                "retry-before-commit": method.retryBeforeCommit,
                "charset": method.charset or "UTF-8",
                **headers,
                "output": f"data/lake/queue-over-http/{self.id}",
            },
        }


def problems(error: ValidationError) -> list[dict[str, str]]:
    """What is wrong with a body: each problem with the path of its property, and without the value."""
    found = []
    for each in error.errors(include_input=False, include_url=False, include_context=False):
        path, message = ".".join(map(str, each["loc"])), each["msg"].removeprefix("Value error, ")
        if not path:  # of the whole body: its text begins with the property
            path, _, message = message.partition(": ")
        found.append({"property": path, "message": message})
    return found


_PROPERTIES = {
    "name": "id",
    "connection": "broker",
    "topics": "topics",
    "pattern": "topics",
    "partitions": "topics",
    "consumer.group.id": "group.id",
    "auto.commit.interval.ms": "topics.config.autoCommitPeriodMs",
    "processing.uri": "subscriptionMethod.uri",
    "processing.method": "subscriptionMethod.method",
    "processing.query-param-key": "subscriptionMethod.queryParamKey",
    "processing.concurrency-factor": "topics.config.concurrencyFactor",
    "processing.delay-on-error.ms": "subscriptionMethod.delayOnErrorMs",
    "processing.retry-before-commit": "subscriptionMethod.retryBeforeCommit",
    "processing.charset": "subscriptionMethod.charset",
    "processing.headers": "subscriptionMethod.additionalHeaders",
}
"""Where a client finds in its own body what a definition calls so."""


def said_of(refused: RefusedError) -> RefusedError:
    """The same, with the properties as the client names them."""
    found = []
    for each in refused.problems:
        theirs = _PROPERTIES.get(each["property"], each["property"])
        message = each["message"].removeprefix(f"{each['property']}:").removeprefix(each["property"]).strip()
        found.append({"property": theirs, "message": message})
    return RefusedError(refused.status, refused.reason, found)


def _selection(topics: Sequence[Topic]) -> dict[str, Any]:
    if topics[0].pattern:
        return {"pattern": topics[0].name}
    if topics[0].partitions:
        return {"partitions": {topic.name: sorted(each.number for each in topic.partitions) for topic in topics}}
    return {"topics": [topic.name for topic in topics]}
