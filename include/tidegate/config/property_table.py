"""Every property of a definition, declared once.

The reader, the JSON Schema, the reference page and the names that a mistaken one is compared with are all made of these
tables. Rules over several properties stand in `rules`, `strategies` and `timeouts`.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from typing import Any, Final, Literal, get_args

from tidegate.config.assign_seek import ASSIGN_SEEK, AssignSeek
from tidegate.config.deserializers import Charset, DeserializerClass
from tidegate.config.http_values import BodyTemplate, HeaderLines, HttpUri
from tidegate.config.property_types import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    Choice,
    Duration,
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
from tidegate.model import subscription as model
from tidegate.model.alerting import ALERT_STATES, AlertState
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPolicy, Progress
from tidegate.model.failure_policy import FAILURE_POLICIES, DeadLetterUse, FailurePolicy
from tidegate.model.output_uri import OutputFormat, SchemaEvolution

Origin = Literal["Kafka", "Hitachi", "SmallRye", "OCI Streaming", "Queue-Over-Http", "Airflow", "Spark", "Tidegate"]


@dataclass(frozen=True)
class Property:
    """A property of a definition.

    type: what it may hold, with the unit of its numbers.
    text: what it does, in a sentence or two.
    see: the link to where the same is told; the reference page has it in place of all sentences but the first.
    default: its value where the definition gives none; None: it is unset.
    origin: the system whose name it bears.
    alias: another system's name for the same, which is taken, too.
    only_with: a property of the same section and those of its values with which this one has an effect; None: it always
    has.
    with_installed: whether it has one with a failure strategy that another package has installed, too.
    field: the path of the field of a Subscription that has its value. None: the one of its own name, in its section's
    part; empty: no field has it alone.
    """

    type: PropertyType
    text: str
    _: KW_ONLY
    see: str = ""
    default: object = None
    origin: Origin = "Tidegate"
    required: bool = False
    alias: str = ""
    only_with: tuple[str, tuple[str, ...]] | None = None
    with_installed: bool = False
    field: str | None = None


@dataclass(frozen=True)
class ConsumerProperty(Property):
    """A property of Kafka's Java consumer, and what becomes of it in librdkafka and in Spark.

    librdkafka: its name there, empty for the same; None: it has no counterpart, or `properties.translate` decides.
    floor: the smallest value of the counterpart; smaller ones of Java's (0 for "at once", -1 for "as the system likes")
    become it.
    in_spark: whether the Java consumer inside Spark's Kafka source is given it. It isn't what Spark sets itself or
    refuses, what bounds a batch and not a poll, and what a group's members have.
    """

    _: KW_ONLY
    origin: Origin = "Kafka"
    field: str | None = ""
    librdkafka: str | None = ""
    floor: int | None = None
    in_spark: bool = True


# whose name a property bears; without one of these it is Tidegate's own, or, of a consumer's, Kafka's
_airflow = partial(Property, origin="Airflow")
_hitachi = partial(Property, origin="Hitachi")
_kafka = partial(Property, origin="Kafka")
_oci = partial(Property, origin="OCI Streaming")
_queue_over_http = partial(Property, origin="Queue-Over-Http")
_smallrye = partial(Property, origin="SmallRye")
_spark = partial(Property, origin="Spark")
_not_for_clients = partial(ConsumerProperty, librdkafka=None, in_spark=False)  # what is given for these stays here
EXECUTION_TIMEOUT: Final = "execution_timeout"
"""Airflow's name of `execution-timeout.ms`, in the section airflow."""
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_ms = partial(Whole, unit="milliseconds")
_bytes = partial(Whole, unit="bytes")
KAFKA: Final = "[Kafka's documentation](https://kafka.apache.org/documentation/#consumerconfigs)"
"""Where all is told of a property that is as in Java's consumer: the reference page adds nothing."""
_LINE = Text(words="text")
_TOPIC = Text(
    r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}",
    "a topic's name (249 of `a-zA-Z0-9._-` at most)",
    "a topic's name (`a-zA-Z0-9._-`)",
)
_RETRY_TOPIC = RetryTopic(
    r"(?=.{1,249}$)[A-Za-z0-9._-]*_[0-9]{1,18}",
    "a topic whose name ends with its delay in ms, as orders_retry_10000",
    "a topic that ends with its delay in ms",
)
_CONNECTION = Text(
    r"(?!.*(?:://|:[0-9]+(?:/|$)))[\w#!()\-.:/\\]{1,250}",
    "an Airflow connection's id (an address goes into the connection)",
    "an Airflow connection",
)
_AIRFLOW_NAME = Text(r".{1,256}", "a name of at most 256 characters", "up to 256 characters")
_FUNCTION = Text(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*", "module:function")
_NAMED_NOTIFIER = replace(_FUNCTION, shape="module:name, as alerts:mail", words="module:name")
_LEAST_FILE_BYTES = 1024 * 1024
_COLUMN = Text(
    r"(?!_|[Bb][Aa][Tt][Cc][Hh]_[Ii][Dd]$)[^/=\\:]+",
    "a column's name (not batch_id, no leading _, no `/=:\\`)",
    "a column",
)


def _commits(takes_effect: Callable[[CommitPolicy], bool]) -> tuple[str, tuple[str, ...]]:
    """The commit strategies with which a property has an effect."""
    return "commit-strategy", tuple(name for name, policy in COMMIT_POLICIES.items() if takes_effect(policy))


def _fails(takes_effect: Callable[[FailurePolicy], bool]) -> tuple[str, tuple[str, ...]]:
    """The failure strategies with which a property has an effect."""
    return "failure-strategy", tuple(name for name, policy in FAILURE_POLICIES.items() if takes_effect(policy))


TOP: Mapping[str, Property] = {
    "description": _airflow(Prose(), "Shown in Airflow.", default=""),
    "schedule": _airflow(
        Schedule(),
        "When runs start, in UTC, or by [waiting records](airflow.md#a-schedule-of-records). Unset: only when "
        "triggered.",
    ),
    "connection": _airflow(
        _CONNECTION,
        "Kafka's addresses and credentials.",
        default="kafka_default",
    ),
    "topics": _queue_over_http(
        Listing(_TOPIC, "[flights]"),
        "Read once they exist, never created. Give one of topics, pattern and partitions, or assign-seek.",
        field="topics.names",
    ),
    "pattern": _queue_over_http(
        Pattern(),
        "Topics whose whole name matches; new ones are read from the earliest record.",
        field="topics.pattern",
    ),
    "partitions": _queue_over_http(
        PartitionLists(_TOPIC, Listing(Whole(0), "[0, 2]")),
        "Reads these partitions, and none added later.",
        field="topics.partitions",
    ),
    ASSIGN_SEEK: _smallrye(
        AssignSeek(),
        "Reads these partitions, each from its offset until the group commits there. 0 is the beginning, -1 the "
        "end; without an offset, cursor or auto.offset.reset says it. The topic may be omitted if topics has "
        "one.",
        field="topics.cursors",
        see="[assign-seek](coming-from-smallrye.md#assign-seek)",
    ),
    "members": _oci(
        Whole(1, 1_024, unit="tasks"),
        "Landing tasks that read a batch in parallel.",
        default=1,
    ),
    "poll-timeout.ms": _hitachi(
        _ms(1),
        "How long a run waits for records, then each member reads.",
        default=60_000,
        alias="urecp-kafka.poll-timeout.ms",
    ),
    "commit-timeout.ms": _hitachi(
        _ms(1),
        "How long a commit may take.",
        default=15_000,
        alias="urecp-kafka.commit-timeout.ms",
    ),
    "unavailable-after.ms": Property(
        _ms(0),
        "How long runs without a broker's answer are skipped before they fail.",
        default=600_000,
    ),
    "retention.ms": Property(
        _ms(0, 36_500 * _DAY_MS),
        "After which `tidegate prune` may remove a published batch's landed files and ledger rows; 0: never.",
        default=30 * _DAY_MS,
    ),
    "execution-timeout.ms": _airflow(_ms(1), "After which Airflow stops a task."),
    "commit-strategy": _smallrye(
        Choice(tuple(COMMIT_POLICIES)),
        "When a batch's offsets are committed. "
        + " ".join(f"{name}: {policy.summary}." for name, policy in COMMIT_POLICIES.items()),
        see="[commit strategies](strategies.md#commit-strategies)",
        default="after-processing",
    ),
    "auto.commit.interval.ms": _kafka(
        _ms(0),
        "For throttled and latest: how often acknowledged records are committed.",
        default=5_000,
        field="auto_commit_interval_ms",
        only_with=_commits(lambda policy: policy.commits_acknowledged),
    ),
    "throttled.unprocessed-record-max-age.ms": _smallrye(
        _ms(0, others=(-1,)),
        "How long a record may stay unacknowledged before the run fails; 0 or -1: forever, as by default for http.",
        default=60_000,
        field="unprocessed_record_max_age_ms",
        only_with=_commits(lambda policy: policy.progress is Progress.CONTIGUOUS_ACKS),
    ),
    "checkpoint.unsynced-state-max-age.ms": _smallrye(
        _ms(0, others=(-1,)),
        "How long new state may stay unstored before `tidegate status` warns; 0 or -1: forever.",
        default=10_000,
        field="unsynced_state_max_age_ms",
        only_with=_commits(lambda policy: policy.keeps_state),
    ),
    "failure-strategy": _smallrye(
        FailureStrategyName(tuple(FAILURE_POLICIES)),
        "What happens to rejected records and failed batches. fail: the subscription stops until `tidegate "
        "clear`. ignore: rejected records go to _rejected in the output; a failed batch is committed, not "
        "published. dead-letter-queue: both go to a topic. delayed-retry-topic: both are retried later. ask: a "
        "person decides.",
        default="fail",
        see="[failure strategies](strategies.md#failure-strategies)",
    ),
    "dead-letter-queue.topic": _smallrye(
        _TOPIC,
        "Never created. Unset: `dead-letter-topic-<subscription>`; delayed-retry-topic then drops and counts "
        "records with no retry left.",
        only_with=_fails(lambda policy: policy.dead_letters is not DeadLetterUse.NEVER),
        with_installed=True,
    ),
    "dead-letter-queue.limit": Property(
        RecordLimit(),
        "Dead letters that a batch may have; a share above 0% allows at least 10. Unset: all.",
        only_with=_fails(lambda policy: policy.dead_letters is DeadLetterUse.ALWAYS),
        with_installed=True,
    ),
    "delayed-retry-topic.topics": _smallrye(
        Listing(_RETRY_TOPIC, "[orders_retry_10000]"),
        "In order, never created. Unset: `<subscription>_retry_10000`, `_20000` and `_50000`.",
        only_with=_fails(lambda policy: policy.uses_retry_topics),
    ),
    "delayed-retry-topic.max-retries": _smallrye(
        Whole(1),
        "How often a record is retried, if needed by the last topic again. Unset: once per topic.",
        only_with=_fails(lambda policy: policy.uses_retry_topics),
    ),
    "delayed-retry-topic.timeout": _smallrye(
        _ms(1),
        "How long after a record's first processing its last retry may be due.",
        default=120_000,
        field="delayed_retry_topic.timeout_ms",
        only_with=_fails(lambda policy: policy.uses_retry_topics),
    ),
    "commit-fence": Property(
        Choice(get_args(model.CommitFence)),
        "What stops a stale worker's commit: Kafka's transactions, or (for clusters without them) a check just before.",
        default="transactional",
    ),
    "on-data-loss": Property(
        Choice(get_args(model.OnDataLoss)),
        "If unread records are gone, the run fails, naming them, or continues at the earliest record.",
        default="fail",
    ),
    "max-retries": _smallrye(Whole(0), "How often a batch's failed delivery is repeated.", default=2),
    "retry-delay.ms": _queue_over_http(_ms(0), "The pause before Airflow retries a failed task.", default=1_000),
    "fail-on-deserialization-failure": _smallrye(
        Flag(),
        "Whether an undecodable record fails its batch or is rejected.",
        default=True,
        field="deserialization.fails",
    ),
    "row-accounting": Property(
        Choice(get_args(model.RowAccounting)),
        "strict: each record is written, rejected or filtered, as one row. free: a transform may explode or aggregate.",
        default="strict",
    ),
    "landing-engine": Property(
        Choice(get_args(model.LandingEngine)),
        "Whether landing tasks or [Spark's executors](scaling.md) read from Kafka.",
        default="python",
    ),
}
CONSUMER: Mapping[str, ConsumerProperty] = {
    "group.id": ConsumerProperty(
        _LINE,
        "Whose offsets are committed. No other subscription may use it.",
        field="consumer.group_id",
        required=True,
    ),
    "client.id": ConsumerProperty(_LINE, "The client's name in broker logs and quotas.", see=KAFKA),
    "client.rack": ConsumerProperty(_LINE, "The client's rack, to read from a nearby replica.", see=KAFKA),
    "client.dns.lookup": ConsumerProperty(
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        "Which of a broker's addresses are tried.",
        see=KAFKA,
    ),
    "max.poll.records": _not_for_clients(
        Whole(1, LONG_MAX, unit="records"),
        "The most records in a batch, over all partitions.",
        default=500,
        field="consumer.max_poll_records",
    ),
    "auto.offset.reset": _not_for_clients(
        Choice(get_args(model.OffsetReset), instead=(("by_duration:", "a cursor of type AT_TIME starts at a time"),)),
        "Where the first batch starts, committed at once. latest skips all existing records, none fails the run.",
        default="latest",
        field="consumer.auto_offset_reset",
    ),
    "isolation.level": ConsumerProperty(
        Choice(get_args(model.IsolationLevel)),
        "read_committed omits records of open and aborted transactions; Java's default doesn't.",
        default="read_committed",
        field="consumer.isolation_level",
    ),
    "max.poll.interval.ms": ConsumerProperty(
        _ms(1, _DAY_MS),
        "How long a delivery may take, from start to publish.",
        default=300_000,
        in_spark=False,
        field="consumer.max_poll_interval_ms",
    ),
    "session.timeout.ms": ConsumerProperty(
        _ms(1, _HOUR_MS),
        "Only checked: rule R5.",
        default=45_000,
        in_spark=False,
    ),
    "heartbeat.interval.ms": ConsumerProperty(
        _ms(1, _HOUR_MS),
        "Only checked: rule R5.",
        default=3_000,
        in_spark=False,
    ),
    "fetch.max.wait.ms": ConsumerProperty(
        _ms(0, 300_000),
        "How long the broker waits for fetch.min.bytes.",
        default=500,
        librdkafka="fetch.wait.max.ms",
        see=KAFKA,
    ),
    "fetch.min.bytes": ConsumerProperty(
        _bytes(0, 100_000_000), "The least data before the broker answers a fetch.", default=1, floor=1, see=KAFKA
    ),
    "fetch.max.bytes": ConsumerProperty(
        _bytes(0, 2_147_483_135),
        "The most data in a fetch; a larger record still arrives.",
        default=52_428_800,
        floor=1000,
        see=KAFKA,
    ),
    "max.partition.fetch.bytes": ConsumerProperty(
        _bytes(0, 1_000_000_000), "The most data of one partition in a fetch.", default=1_048_576, floor=1, see=KAFKA
    ),
    "connections.max.idle.ms": ConsumerProperty(
        _ms(1, others=(-1,)), "When an idle connection is closed; -1: never.", default=540_000, floor=0, see=KAFKA
    ),
    "socket.connection.setup.timeout.ms": ConsumerProperty(_ms(1_000), "How long connecting may take.", default=10_000),
    "socket.connection.setup.timeout.max.ms": ConsumerProperty(
        _ms(1_000),
        "Only checked, except with landing-engine: spark.",
        default=30_000,
        librdkafka=None,
    ),
    "reconnect.backoff.ms": ConsumerProperty(
        _ms(0, _HOUR_MS), "The pause before reconnecting to a broker.", default=50, see=KAFKA
    ),
    "reconnect.backoff.max.ms": ConsumerProperty(
        _ms(0, _HOUR_MS), "The longest pause before reconnecting.", default=1_000, see=KAFKA
    ),
    "retry.backoff.ms": ConsumerProperty(
        _ms(0, 300_000), "The pause before repeating a failed request.", default=100, floor=1, see=KAFKA
    ),
    "retry.backoff.max.ms": ConsumerProperty(
        _ms(0, 300_000), "The longest pause before repeating a request.", default=1_000, floor=1, see=KAFKA
    ),
    "metadata.max.age.ms": ConsumerProperty(
        _ms(0, _HOUR_MS),
        "How often topics, partitions and leaders are looked up.",
        default=300_000,
        librdkafka="topic.metadata.refresh.interval.ms",
        floor=1,
        see=KAFKA,
    ),
    "metadata.recovery.strategy": ConsumerProperty(
        Choice(("rebootstrap", "none")), "What to do if no known broker is reachable.", see=KAFKA
    ),
    "metadata.recovery.rebootstrap.trigger.ms": ConsumerProperty(
        _ms(0), "How long without metadata before bootstrap.servers are used again.", see=KAFKA
    ),
    "request.timeout.ms": ConsumerProperty(
        _ms(10, 300_000),
        "How long a request waits for its answer.",
        default=30_000,
        librdkafka="socket.timeout.ms",
        see=KAFKA,
    ),
    "receive.buffer.bytes": ConsumerProperty(
        _bytes(-1, 100_000_000),
        "Unset or -1: the system decides.",
        librdkafka="socket.receive.buffer.bytes",
        floor=0,
    ),
    "send.buffer.bytes": ConsumerProperty(
        _bytes(-1, 100_000_000),
        "Unset or -1: the system decides.",
        librdkafka="socket.send.buffer.bytes",
        floor=0,
    ),
    "enable.metrics.push": ConsumerProperty(
        Flag(), "Whether the client sends metrics to a broker that asks.", see=KAFKA
    ),
    "enable.auto.commit": _not_for_clients(
        Flag(
            only=False,
            reason="Tidegate commits offsets itself, when commit-strategy says so; on-receipt comes nearest to true",
        ),
        "commit-strategy decides.",
    ),
    "allow.auto.create.topics": ConsumerProperty(
        Flag(only=False, reason="a topic that is missing is an empty poll, never created"),
        "Missing topics are never created.",
        librdkafka=None,
    ),
    "exclude.internal.topics": _not_for_clients(
        Flag(),
        "Whether pattern omits topics such as __consumer_offsets.",
        default=True,
        field="topics.internal",
    ),
    "key.deserializer": _not_for_clients(
        DeserializerClass(),
        "How Spark decodes keys.",
        default="bytes",
        field="deserialization.key.name",
    ),
    "value.deserializer": _not_for_clients(
        DeserializerClass(),
        "How Spark decodes values.",
        default="bytes",
        field="deserialization.value.name",
    ),
    "key.deserializer.encoding": _not_for_clients(Charset(), "For string keys; unset: UTF-8."),
    "value.deserializer.encoding": _not_for_clients(Charset(), "For string values; unset: UTF-8."),
    "deserializer.encoding": _not_for_clients(Charset(), "For both; unset: UTF-8."),
    "check.crcs": ConsumerProperty(
        Flag(only=True, reason="a damaged record must not reach the lake"),
        "Damaged records are never read.",
        librdkafka=None,
    ),
    "group.protocol": _not_for_clients(Choice(("classic",)), "No consumer joins the group."),
    "partition.assignment.strategy": _not_for_clients(
        Choice(("range", "org.apache.kafka.clients.consumer.RangeAssignor")),
        "Members share partitions by range.",
    ),
}
CURSOR: Mapping[str, Property] = {
    "type": _oci(
        Choice(get_args(model.CursorType)),
        "TRIM_HORIZON: at the earliest record.",
    ),
    "time": _oci(Moment(), "For AT_TIME: at each partition's first record at or after it."),
    "offset": _oci(
        Whole(0, LONG_MAX - 1, unit="offset"),
        "For AT_OFFSET and AFTER_OFFSET: in each partition, else at its nearer end. Refused if no partition "
        "reaches it.",
    ),
}
DESERIALIZATION: Mapping[str, Property] = {
    "key.encoding": Property(Charset(), "Instead of consumer.key.deserializer.encoding."),
    "key.schema": Property(JsonSchema(), "Required for JSON keys."),
    "value.encoding": Property(Charset(), "Instead of consumer.value.deserializer.encoding."),
    "value.schema": Property(JsonSchema(), "Required for JSON values."),
    "schema-registry": _airflow(
        _CONNECTION,
        "For avro, protobuf and json-schema.",
        default="schema_registry_default",
        field="deserialization.registry",
    ),
}
_HTTP = ("kind", ("http",))
PROCESSING: Mapping[str, Property] = {
    "kind": Property(
        Choice(get_args(model.ProcessingKind)),
        "A Spark job per batch, or [a request per record](http.md).",
        default="spark",
    ),
    "connection": _airflow(
        _CONNECTION,
        "Of type spark (spark-submit) or spark_connect; for http of type http, with credentials, and unset: none.",
        default="spark_default",
    ),
    "format": Property(
        Choice(get_args(OutputFormat)),
        "A folder per batch, or a [table](tables.md#choosing-a-format).",
        default="parquet",
    ),
    "output": Property(
        Output(),
        "A path is relative to the project; gs, abfs and abfss are for delta alone. A URI may name an Airflow "
        "connection: s3://connection@bucket/key. An Iceberg catalog is a connection's id. Only tables may be "
        "several subscriptions' output.",
        required=True,
    ),
    "uri": _queue_over_http(
        HttpUri(),
        "For http: required. Hosts that aren't public must be in TIDEGATE_HTTP_ALLOWED.",
        only_with=_HTTP,
        field="processing.endpoint.uri",
    ),
    "method": _queue_over_http(
        Choice(get_args(model.HttpMethod)),
        "For http: with GET the record is a parameter, else the body.",
        default="POST",
        only_with=_HTTP,
        field="processing.endpoint.method",
    ),
    "headers": _queue_over_http(
        HeaderLines(),
        "For http: sent with each request. Secrets belong in the connection.",
        default={},
        only_with=_HTTP,
        field="processing.endpoint.headers",
    ),
    "body": Property(
        BodyTemplate(),
        "For http: [sent](http.md#what-is-sent) in place of the record's value.",
        only_with=_HTTP,
        field="processing.endpoint.body",
    ),
    "query-param-key": _queue_over_http(
        Text(r"[A-Za-z0-9._~-]+", "a parameter's name (`a-zA-Z0-9._~-`)"),
        "For http: with GET, the parameter that has the record.",
        default="message",
        only_with=_HTTP,
        field="processing.endpoint.parameter",
    ),
    "charset": _queue_over_http(
        Charset(),
        "For http: the content type's charset, to which string values are converted.",
        only_with=_HTTP,
        field="processing.endpoint.charset",
    ),
    "concurrency-factor": _queue_over_http(
        Whole(1, 10_000),
        "For http: requests per partition at once. Only 1 keeps their order.",
        default=1,
        only_with=_HTTP,
        field="processing.endpoint.concurrency",
    ),
    "retry-before-commit": _queue_over_http(
        Whole(0),
        "For http: how often a failed request is repeated before its record is rejected; 0: until the delivery ends.",
        default=0,
        only_with=_HTTP,
        field="processing.endpoint.retry_before_commit",
    ),
    "delay-on-error.ms": _queue_over_http(
        _ms(0, _HOUR_MS),
        "For http: the pause before repeating a failed request.",
        default=1_000,
        only_with=_HTTP,
        field="processing.endpoint.delay_ms",
    ),
    "request-timeout.ms": Property(
        _ms(1, _HOUR_MS),
        "For http: until the answer's last byte.",
        default=30_000,
        only_with=_HTTP,
        field="processing.endpoint.request_timeout_ms",
    ),
    "connect-timeout.ms": Property(
        _ms(1, _HOUR_MS),
        "For http: until connected.",
        default=10_000,
        only_with=_HTTP,
        field="processing.endpoint.connect_timeout_ms",
    ),
    "transform": Property(
        _FUNCTION,
        "For spark: from records to rows. Unset: records are written unchanged.",
    ),
    "job": _spark(
        Text(shape="the path or URI of a Spark job", words="a path or URI"),
        "For spark: your own, relative to the project. Excludes transform.",
    ),
    "target-file-size.bytes": _spark(
        Whole(_LEAST_FILE_BYTES, LONG_MAX, unit="bytes"),
        "For spark: about how large files become, by one more shuffle. Unset: a file per Spark task.",
        field="processing.target_file_size_bytes",
    ),
    "partition-by": _spark(
        Listing(_COLUMN, "[carrier]", empty=True),
        "For spark: values divide files into folders.",
        default=(),
    ),
    "schema-evolution": Property(
        Choice(get_args(SchemaEvolution)),
        "For delta and iceberg: if columns aren't the table's, fail doesn't publish the batch, add-columns adds "
        "them, rescue keeps what doesn't fit in _rescued_data.",
        default="fail",
        only_with=("format", ("delta", "iceberg")),
    ),
    "keys": _spark(
        Listing(_COLUMN, "[id]", empty=True),
        "For delta and iceberg: one row per [key](tables.md#change-feeds). Needs sequence-by.",
        default=(),
        only_with=("format", ("delta", "iceberg")),
    ),
    "sequence-by": _spark(
        Listing(_COLUMN, "[ts_ms, offset]", empty=True),
        "With keys: required, the order of a key's changes; the greatest wins, whenever it comes.",
        default=(),
        only_with=("format", ("delta", "iceberg")),
    ),
    "delete-when": _spark(
        Text(r".{1,10000}", "a condition in SQL, on one line", "SQL, on one line"),
        "With keys: which of the transform's rows delete their key.",
        only_with=("format", ("delta", "iceberg")),
    ),
}
AIRFLOW: Mapping[str, Property] = {
    "pool": _airflow(_AIRFLOW_NAME, "Must exist."),
    "queue": _airflow(_AIRFLOW_NAME, "For executors with queues."),
    "executor": _airflow(
        Text(r"[^ ,:;=]{1,500}", "the name, alias or module path of an executor", "name, alias or module path"),
        "One of `[core] executor`. Unset: the first.",
    ),
    "priority_weight": _airflow(Whole(INT_MIN, INT_MAX), "Waiting tasks with more start first.", default=1),
    "owner": _airflow(Text(r"[^,]{1,500}", "a name without commas"), "The tasks' owner.", default="tidegate"),
    "tags": _airflow(
        Listing(
            Text(
                r"(?!operator:).{1,100}",
                "up to 100 characters, without operator: at their start",
                "up to 100 characters, not `operator:...`",
            ),
            "[finance]",
            empty=True,
        ),
        "Besides tidegate and the topics.",
        default=(),
    ),
    "on_failure_callback": _airflow(_FUNCTION, "Called for each failed run."),
    "on_success_callback": _airflow(_FUNCTION, "Called for each successful run."),
    EXECUTION_TIMEOUT: _airflow(Duration(), "Instead of `execution-timeout.ms`.", field=""),
}
ALERTS: Mapping[str, Property] = {
    "notify": Property(
        Listing(_NAMED_NOTIFIER, "['alerts:mail']", empty=True),
        "Airflow notifiers, or functions that take a context.",
        default=(),
    ),
    "states": Property(
        Listing(Choice(get_args(AlertState)), "[stopped, asked]", empty=True),
        "The verdicts to alert on.",
        default=list(ALERT_STATES),
    ),
    "lag.records": Property(
        Whole(1, LONG_MAX, unit="records"),
        "Alerts on a larger lag.",
        field="alerts.lag_records",
    ),
    "lag.ms": Property(
        _ms(1, LONG_MAX),
        "Alerts if the oldest record has waited longer.",
    ),
    "open-batch.ms": Property(_ms(1, LONG_MAX), "Alerts if a batch has been open longer."),
    "resolved": Property(Flag(), "Whether an alert's end is told, too.", default=False),
}
DRAIN: Mapping[str, Property] = {
    "max-runs": Property(
        Whole(0, 10_000),
        "How many more runs may follow at once.",
        default=0,
        field="drain_max_runs",
    ),
}

PROPERTIES: Mapping[str, Mapping[str, Property]] = {
    "": TOP,
    "consumer": CONSUMER,
    "cursor": CURSOR,
    "deserialization": DESERIALIZATION,
    "processing": PROCESSING,
    "airflow": AIRFLOW,
    "alerts": ALERTS,
    "drain": DRAIN,
}
"""The properties by their sections; "" is the top level."""

SECTIONS: Mapping[str, str] = {
    "consumer": "Kafka's consumer properties, by their Java names.",
    "cursor": "Where a group without commits starts, in OCI Streaming's terms.",
    "deserialization": "For the deserializers under `consumer`.",
    "processing": "Columns named here can't be batch_id, begin with _ or have one of `/=:\\`.",
    "airflow": "See [Pools, queues and callbacks](airflow.md#pools-queues-and-callbacks), also for defaults.",
    "alerts": "See [Alerts](alerts.md), also for defaults.",
    "drain": "See [Working off a backlog](airflow.md#working-off-a-backlog).",
}
REQUIRED = [(section, name) for section, rows in PROPERTIES.items() for name, known in rows.items() if known.required]
ALIASES: Mapping[str, str] = {known.alias: name for name, known in TOP.items() if known.alias}

_DEFAULTS = {section: {name: known.default for name, known in rows.items()} for section, rows in PROPERTIES.items()}


def path_of(section: str, name: str) -> str:
    """A property's whole name: its section's and its own."""
    return f"{section}.{name}" if section else name


@cache
def field_of(section: str, name: str) -> str:
    """The path of the field of a Subscription that has a property's value, see `Property.field`."""
    own = path_of(section, name.replace("-", "_").replace(".ms", "_ms"))
    given = PROPERTIES[section][name].field
    return own if given is None else given


def with_defaults(section: str, given: Mapping[str, object]) -> dict[str, Any]:
    """The values of all properties of a section, those that aren't given by their defaults."""
    return {**_DEFAULTS[section], **given}


def fields(part: str, section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a section's properties say for the fields of a part of a Subscription, "" for those of its own.

    `values` are as `with_defaults` has them; None stays None.
    """
    found = {}
    for name, known in PROPERTIES[section].items():
        home, _, field = field_of(section, name).rpartition(".")
        if field and home == part:
            value = values[name]
            found[field] = None if value is None else known.type.parse(value)
    return found
