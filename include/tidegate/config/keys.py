"""The properties of a definition: what each may hold, and its default."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.config import properties
from tidegate.config.assign_seek import ASSIGN_SEEK, AssignSeek
from tidegate.config.deserializers import Charset
from tidegate.config.property_types import (
    LONG_MAX,
    Choice,
    FailureStrategyName,
    Flag,
    Listing,
    Moment,
    Output,
    PartitionLists,
    Pattern,
    PropertyType,
    Prose,
    RecordLimit,
    RetryTopic,
    Schedule,
    Text,
    Whole,
)
from tidegate.config.schemas import JsonSchema
from tidegate.model.commit_policy import COMMIT_POLICIES
from tidegate.model.failure_policy import FAILURE_POLICIES


@dataclass(frozen=True)
class Key:
    """A property of the definition: what it may hold and its default."""

    kind: PropertyType
    default: object = None


_TOPIC = Text(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "a topic's name (a-z A-Z 0-9 . _ -)")
_RETRY_TOPIC = RetryTopic(
    r"(?=.{1,249}$)[A-Za-z0-9._-]*_[0-9]{1,18}", "a topic whose name ends with its delay in ms, as orders_retry_10000"
)
_CONNECTION = Text(r"[\w#!()\-.:/\\]{1,250}", "the id of an Airflow connection")
_FUNCTION = Text(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*", "module:function")
_COLUMN = Text(
    r"(?!_|[Bb][Aa][Tt][Cc][Hh]_[Ii][Dd]$)[^/=\\:]+",
    "a column's name (not batch_id, no _ at its start, no / = : in it)",
)

TOP: Mapping[str, Key] = {
    "description": Key(Prose(), ""),
    "schedule": Key(Schedule()),
    "connection": Key(_CONNECTION, "kafka_default"),
    "topics": Key(Listing(_TOPIC, "[flights]")),
    "pattern": Key(Pattern()),
    "partitions": Key(PartitionLists(_TOPIC, Listing(Whole(0), "[0, 2]"))),
    ASSIGN_SEEK: Key(AssignSeek()),
    "members": Key(Whole(1, 1024), 1),
    "poll-timeout.ms": Key(Whole(1), 60_000),
    "commit-timeout.ms": Key(Whole(1), 15_000),
    "unavailable-after.ms": Key(Whole(0), 600_000),
    "execution-timeout.ms": Key(Whole(1)),
    "commit-strategy": Key(Choice(tuple(COMMIT_POLICIES)), "after-processing"),
    "auto.commit.interval.ms": Key(Whole(0), 5_000),
    "throttled.unprocessed-record-max-age.ms": Key(Whole(0, others=(-1,)), 60_000),
    "checkpoint.unsynced-state-max-age.ms": Key(Whole(0, others=(-1,)), 10_000),
    "failure-strategy": Key(FailureStrategyName(tuple(FAILURE_POLICIES)), "fail"),
    "dead-letter-queue.topic": Key(_TOPIC),
    "dead-letter-queue.limit": Key(RecordLimit()),
    "delayed-retry-topic.topics": Key(Listing(_RETRY_TOPIC, "[orders_retry_10000]")),
    "delayed-retry-topic.max-retries": Key(Whole(1)),
    "delayed-retry-topic.timeout": Key(Whole(1), 120_000),
    "commit-fence": Key(Choice(("transactional", "none")), "transactional"),
    "on-data-loss": Key(Choice(("fail", "reset")), "fail"),
    "max-retries": Key(Whole(0), 2),
    "retry-delay.ms": Key(Whole(0), 1_000),
    "fail-on-deserialization-failure": Key(Flag(), default=True),
    "row-accounting": Key(Choice(("strict", "free")), "strict"),
    "landing-engine": Key(Choice(("python", "spark")), "python"),
}
CURSOR: Mapping[str, Key] = {
    "type": Key(Choice(("TRIM_HORIZON", "LATEST", "AT_TIME", "AT_OFFSET", "AFTER_OFFSET"))),
    "time": Key(Moment()),
    "offset": Key(Whole(0, LONG_MAX - 1)),
}
PROCESSING: Mapping[str, Key] = {
    "connection": Key(_CONNECTION, "spark_default"),
    "transform": Key(_FUNCTION),
    "job": Key(Text(shape="the path or URI of a Spark job")),
    "output": Key(Output()),
    "partition-by": Key(Listing(_COLUMN, "[carrier]", empty=True), ()),
}
DESERIALIZATION: Mapping[str, Key] = {
    "key.encoding": Key(Charset()),
    "key.schema": Key(JsonSchema()),
    "value.encoding": Key(Charset()),
    "value.schema": Key(JsonSchema()),
    "schema-registry": Key(_CONNECTION, "schema_registry_default"),
}
SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "cursor": CURSOR,
    "deserialization": DESERIALIZATION,
    "processing": PROCESSING,
}
CONSUMER: Mapping[str, Key] = {name: Key(known.kind, known.default) for name, known in properties.PROPERTIES.items()}
KEYS: Mapping[str, Mapping[str, Key]] = {"": TOP, "consumer": CONSUMER, **SECTIONS}
ALIASES: Mapping[str, str] = {
    "urecp-kafka.poll-timeout.ms": "poll-timeout.ms",
    "urecp-kafka.commit-timeout.ms": "commit-timeout.ms",
}
