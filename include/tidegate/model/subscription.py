"""The values of a subscription: what a user's definition says, checked and with its defaults filled in.

`tidegate.config.reading` makes them from a file; the steps only ever read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal
from urllib.parse import urlsplit

from tidegate.model.alerting import AlertProperties
from tidegate.model.change_feed import ChangeFeed
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPolicy, CommitStrategy
from tidegate.model.errors import location
from tidegate.model.failure_policy import DeadLetterUse, FailurePolicy, failure_policy
from tidegate.model.output_uri import OutputFormat, SchemaEvolution

Scalar = str | int | float | bool

CLOSING_MS: Final = 30_000
"""How long a client of Kafka's may take to close, which no property says; it is given up then."""

Severity = Literal["error", "warning"]
OffsetReset = Literal["earliest", "latest", "none"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]
CommitFence = Literal["transactional", "none"]
OnDataLoss = Literal["fail", "reset"]
RowAccounting = Literal["strict", "free"]
LandingEngine = Literal["python", "spark"]
ProcessingKind = Literal["spark", "http"]
HttpMethod = Literal["POST", "GET", "PUT", "PATCH", "DELETE"]
DeserializerName = Literal[
    "bytes",
    "string",
    "integer",
    "long",
    "short",
    "float",
    "double",
    "uuid",
    "json",
    "avro",
    "protobuf",
    "json-schema",
]
CursorType = Literal["TRIM_HORIZON", "LATEST", "AT_TIME", "AT_OFFSET", "AFTER_OFFSET"]

_RETRY_DELAYS_MS = (10_000, 20_000, 50_000)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a definition, and where.

    `line` counts from 1 and is 0 where no line says it (a file that can't be read). `property` is the path
    of names joined by dots (`consumer.max.poll.records`), empty where the whole file is meant.
    """

    message: str
    rule: str
    property: str = ""
    value: Scalar | None = None
    severity: Severity = "error"
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.severity}: {self.message} [{self.rule}]"

    def to_json(self) -> dict[str, Scalar | None]:
        """The problem as `tidegate check --json` prints it."""
        return {
            "file": self.file,
            "line": self.line,
            "property": self.property,
            "value": self.value,
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
        }


INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that a broker tells clients it keeps for itself."""


@dataclass(frozen=True)
class TopicNames:
    """Topics by name, in the order of the definition."""

    names: tuple[str, ...]

    @property
    def named(self) -> frozenset[str]:
        """The topics that the definition names."""
        return frozenset(self.names)

    def takes(self, topic: str) -> bool:
        """Whether it is one of them."""
        return topic in self.names


@dataclass(frozen=True)
class TopicPattern:
    """All topics whose whole name matches a regular expression (Java's `Pattern.matches`, not a search).

    With `internal` also those that Kafka keeps for itself (`exclude.internal.topics: false`).
    """

    pattern: str
    internal: bool = False

    @property
    def named(self) -> frozenset[str]:
        """None: which topics it finds, the broker says."""
        return frozenset()

    def takes(self, topic: str) -> bool:
        """Whether the pattern matches the name from its first to its last character."""
        return (self.internal or topic not in INTERNAL_TOPICS) and re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class TopicPartitions:
    """Chosen partitions: topic -> partition numbers, ascending. Partitions that appear later aren't taken.

    `cursors` has, by topic and partition, where those start that have a cursor of their own; the others have the
    subscription's. `ends` has, likewise, where those end of which no more is read, whatever arrives.
    """

    partitions: Mapping[str, tuple[int, ...]] = field(hash=False)
    cursors: Mapping[str, Mapping[int, "Cursor"]] = field(default_factory=dict, hash=False)
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict, hash=False)

    @property
    def named(self) -> frozenset[str]:
        """The topics that the definition names."""
        return frozenset(self.partitions)

    def takes(self, topic: str) -> bool:
        """Whether any of its partitions is one of them."""
        return topic in self.partitions

    @property
    def all_have_cursors(self) -> bool:
        """Whether each of the partitions has a cursor of its own."""
        return all(number in self.cursors.get(topic, {}) for topic, each in self.partitions.items() for number in each)


TopicSelection = TopicNames | TopicPattern | TopicPartitions


@dataclass(frozen=True)
class ConsumerProperties:
    """The `consumer:` section: what the engine itself acts on, and the client configuration made of it all.

    `librdkafka` lacks only what the connection knows (addresses, credentials). Its `auto.offset.reset` is
    always `error`: every read starts at a planned position, and `auto_offset_reset` is plan's to apply. `java` is the
    same for Spark's Kafka source.
    """

    group_id: str
    max_poll_records: int
    max_poll_interval_ms: int
    auto_offset_reset: OffsetReset
    isolation_level: IsolationLevel
    librdkafka: Mapping[str, Scalar] = field(hash=False)
    java: Mapping[str, Scalar] = field(hash=False, default_factory=dict)


@dataclass(frozen=True)
class Cursor:
    """Where a group's very first batch starts, in the terms of OCI Streaming's cursors.

    `time` (with its zone) belongs to AT_TIME, `offset` to AT_OFFSET and AFTER_OFFSET. A subscription's holds for every
    partition that has none of its own (`TopicPartitions.cursors`). A group that has committed ignores its cursor.
    """

    type: CursorType
    time: datetime | None = None
    offset: int | None = None


@dataclass(frozen=True)
class HttpEndpoint:
    """Where the records of `processing.kind: http` are sent, one request for each, and how.

    `headers` come before a record's own, `parameter` has the record for a method without a body, `body` is a template
    of it. `charset` is what the receiver gets, `encoding` what a text is in Kafka, None for bytes as they are.
    `concurrency` requests of a partition are under way at once. One that is unsuccessful is repeated
    `retry_before_commit` times, 0 for ever, `delay_ms` apart. `connection` has the credentials, None for none.
    """

    uri: str
    method: HttpMethod = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: str | None = None
    parameter: str = "message"
    charset: str | None = None
    encoding: str | None = None
    concurrency: int = 1
    retry_before_commit: int = 0
    delay_ms: int = 1_000
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    connection: str | None = None

    @property
    def has_body(self) -> bool:
        """Whether the record is the body; else it is a parameter of the URI."""
        return self.method != "GET"

    @property
    def attempts(self) -> int:
        """How often a request is sent at most; 0 for ever."""
        return self.retry_before_commit and self.retry_before_commit + 1

    @property
    def place(self) -> str:
        """Scheme, host and port, as messages name it: what follows them may be a secret."""
        scheme, host, *_ = urlsplit(self.uri)
        return f"{scheme}://{host}"


@dataclass(frozen=True)
class Processing:
    """How a landed batch becomes output: by a Spark job, or, with an `endpoint`, by requests over HTTP.

    `transform` is `module:function`, None to write the records as they came. `output` is the path, URI or table as
    written; `tidegate.config.outputs.output_uri` makes the output's URI of it and of `format`. `job` is the Spark job's
    file, as written, None for Tidegate's own. `schema_evolution` is for tables, and so are
    `keys`, `sequence_by` and `delete_when`, which make a change feed.
    """

    output: str
    connection: str
    transform: str | None
    partition_by: tuple[str, ...]
    job: str | None = None
    kind: ProcessingKind = "spark"
    format: OutputFormat = "parquet"
    schema_evolution: SchemaEvolution = "fail"
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    delete_when: str | None = None
    target_file_size_bytes: int | None = None
    endpoint: HttpEndpoint | None = None

    @property
    def change_feed(self) -> ChangeFeed | None:
        """What makes changes of the rows; None where each is a row of its own."""
        return ChangeFeed(self.keys, self.sequence_by, self.delete_when) if self.keys else None


@dataclass(frozen=True)
class Deserializer:
    """How the bytes of keys or values are decoded.

    `name` is the short one: bytes (as they are), string, integer, long, short, float, double, uuid, json, avro,
    protobuf or json-schema (these three in Confluent's wire format). `encoding` belongs to string. `schema` is the
    DDL or JSON Schema of json, as text; None elsewhere.
    """

    name: DeserializerName = "bytes"
    encoding: str = "UTF-8"
    schema: str | None = None


@dataclass(frozen=True)
class Deserialization:
    """How records are decoded before the transform sees them, and what becomes of one that can't be.

    `fails` is `fail-on-deserialization-failure`: true fails the batch, false rejects the record. `registry` is the
    Airflow connection of the Schema Registry, None unless a deserializer needs one.
    """

    key: Deserializer = Deserializer()
    value: Deserializer = Deserializer()
    fails: bool = True
    registry: str | None = None


@dataclass(frozen=True)
class DeadLetterQueue:
    """`dead-letter-queue.topic` and `.limit`: how many records of a batch may go there, as `100` or `1%`; None for all.

    An empty topic stands for the default one, `dead-letter-topic-<subscription>`. `replay` is the name of the replay
    whose letters these are, None for the subscription's own.
    """

    topic: str = ""
    limit: str | None = None
    replay: str | None = None

    def of(self, subscription: str) -> str:
        """The topic's name for a subscription of this name."""
        return self.topic or f"dead-letter-topic-{subscription}"

    def written_by(self, subscription: str, strategy: str) -> str | None:
        """Where a subscription with this failure strategy writes dead letters, None for nowhere.

        With `fail` only a person has them written, by the answer `dead-letter`: no default then.
        """
        match failure_policy(strategy).dead_letters:
            case DeadLetterUse.ALWAYS | DeadLetterUse.WHEN_ASKED:
                return self.of(subscription)
            case DeadLetterUse.WHEN_NAMED:
                return self.topic or None
            case DeadLetterUse.NEVER:
                return None


@dataclass(frozen=True)
class DelayedRetryTopic:
    """`delayed-retry-topic.topics`, `.max-retries` and `.timeout` (ms), as SmallRye has them.

    No topics stand for the default ones, `<subscription>_retry_10000`, `_20000` and `_50000`; `max_retries` of 0 for
    as many as there are topics.
    """

    topics: tuple[str, ...] = ()
    max_retries: int = 0
    timeout_ms: int = 120_000

    def of(self, subscription: str) -> tuple[str, ...]:
        """The topics' names for a subscription of this name."""
        return self.topics or tuple(f"{subscription}_retry_{delay}" for delay in _RETRY_DELAYS_MS)

    def used_by(self, subscription: str, strategy: str) -> tuple[str, ...]:
        """The retry topics that a subscription with this failure strategy writes and reads."""
        return self.of(subscription) if failure_policy(strategy).uses_retry_topics else ()


@dataclass(frozen=True)
class RecordSchedule:
    """Runs start by what waits: so many records, or one that has waited for so long; None for either, not both."""

    records: int | None
    or_after_ms: int | None

    def __str__(self) -> str:
        """`when 10,000 records wait, or one has waited for 60,000 ms`."""
        counted = None if self.records is None else f"{self.records:,} records wait"
        waited = None if self.or_after_ms is None else f"one has waited for {self.or_after_ms:,} ms"
        return f"when {', or '.join(filter(None, (counted, waited)))}"


@dataclass(frozen=True)
class AirflowProperties:
    """The `airflow:` section: what Airflow is told of the tasks and of the DAG, None for its own default.

    `tags` come beside those that Tidegate gives. The callbacks are `module:function`, called once for each run that
    fails, or succeeds.
    """

    pool: str | None = None
    queue: str | None = None
    executor: str | None = None
    priority_weight: int = 1
    owner: str = "tidegate"
    tags: tuple[str, ...] = ()
    on_failure_callback: str | None = None
    on_success_callback: str | None = None


@dataclass(frozen=True)
class Subscription:
    """One definition file. `name` is the file's stem and the DAG's id; durations are in milliseconds.

    `execution_timeout_ms` is Airflow's for each task, None for none.
    """

    name: str
    description: str
    schedule: str | RecordSchedule | None
    connection: str
    topics: TopicSelection
    members: int
    consumer: ConsumerProperties
    poll_timeout_ms: int
    commit_timeout_ms: int
    commit_strategy: CommitStrategy
    failure_strategy: str
    commit_fence: CommitFence
    on_data_loss: OnDataLoss
    cursor: Cursor | None
    max_retries: int
    retry_delay_ms: int
    row_accounting: RowAccounting
    landing_engine: LandingEngine
    processing: Processing
    execution_timeout_ms: int | None = None
    deserialization: Deserialization = Deserialization()
    dead_letter_queue: DeadLetterQueue = DeadLetterQueue()
    delayed_retry_topic: DelayedRetryTopic = DelayedRetryTopic()
    auto_commit_interval_ms: int = 5_000
    unprocessed_record_max_age_ms: int = 60_000
    unsynced_state_max_age_ms: int = 10_000
    unavailable_after_ms: int = 600_000
    airflow: AirflowProperties = AirflowProperties()
    drain_max_runs: int = 0
    retention_ms: int = 2_592_000_000
    alerts: AlertProperties = field(default_factory=AlertProperties)

    @property
    def place(self) -> str:
        """`subscription flights, group flights-lake`, as messages name it."""
        return location(subscription=self.name, group=self.consumer.group_id)

    @property
    def commit_policy(self) -> CommitPolicy:
        """What the commit strategy comes to."""
        return COMMIT_POLICIES[self.commit_strategy]

    @property
    def failure_policy(self) -> FailurePolicy:
        """What is known of the failure strategy."""
        return failure_policy(self.failure_strategy)

    @property
    def has_cursors(self) -> bool:
        """Whether the definition says where the very first batch starts, for all partitions or for some."""
        return self.cursor is not None or (isinstance(self.topics, TopicPartitions) and bool(self.topics.cursors))

    @property
    def dead_letter_topic(self) -> str | None:
        """Where its dead letters go, see `DeadLetterQueue.written_by`."""
        return self.dead_letter_queue.written_by(self.name, self.failure_strategy)

    @property
    def retry_topics(self) -> tuple[str, ...]:
        """The retry topics that it writes and reads, see `DelayedRetryTopic.used_by`."""
        return self.delayed_retry_topic.used_by(self.name, self.failure_strategy)

    @property
    def drops_failed_retries(self) -> bool:
        """Whether a record goes nowhere once all of its retries have failed."""
        return self.failure_policy.uses_retry_topics and self.dead_letter_topic is None

    @property
    def produced_topics(self) -> tuple[str, ...]:
        """The topics that must be there for its failed records: those that it writes unasked, and those that it names.

        The default dead-letter topic of `ask` is only for the answer dead-letter, so it may be missing.
        """
        is_sure = self.dead_letter_queue.topic or self.failure_policy.dead_letters is DeadLetterUse.ALWAYS
        dead = self.dead_letter_topic if is_sure else None
        return tuple(dict.fromkeys((*self.retry_topics, *((dead,) if dead else ()))))
