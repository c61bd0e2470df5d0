"""Every property of a definition, declared once.

The reader, the JSON Schema, the reference page and the names that a mistaken one is compared with are all made of these
tables. Rules over several properties stand in `rules`, `strategies` and `timeouts`.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from typing import Any, Literal, get_args

from tidegate.config.assign_seek import ASSIGN_SEEK, AssignSeek
from tidegate.config.deserializers import Charset, DeserializerClass
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
from tidegate.model import subscription as model
from tidegate.model.commit_policy import COMMIT_POLICIES
from tidegate.model.failure_policy import FAILURE_POLICIES

Origin = Literal["Kafka", "Hitachi", "SmallRye", "OCI Streaming", "Queue-Over-Http", "Airflow", "Spark", "Tidegate"]


@dataclass(frozen=True)
class Property:
    """A property of a definition.

    type: what it may hold, with the unit of its numbers.
    text: what it does, in a sentence or two.
    default: its value where the definition gives none; None: it is unset.
    origin: the system whose name it bears.
    alias: another system's name for the same, which is taken, too.
    only_with: a property and those of its values with which this one has an effect; None: it always has.
    with_installed: whether it has one with a failure strategy that another package has installed, too.
    field: the path of the field of a Subscription that has its value. None: the one of its own name, in its section's
    part; empty: no field has it alone.
    """

    type: PropertyType
    text: str
    _: KW_ONLY
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
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_ms = partial(Whole, unit="milliseconds")
_bytes = partial(Whole, unit="bytes")
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

TOP: Mapping[str, Property] = {
    "description": _airflow(Prose(), "What the subscription is for. Airflow shows it beside the DAG.", default=""),
    "schedule": _airflow(
        Schedule(), "When a run starts: a cron expression or one of Airflow's presets. Without it, only when triggered."
    ),
    "connection": _airflow(
        _CONNECTION,
        "The id of the Airflow connection to Kafka, which has the addresses and the credentials: bootstrap.servers, "
        "security.protocol and all that begins with sasl or ssl.",
        default="kafka_default",
    ),
    "topics": _queue_over_http(
        Listing(_TOPIC, "[flights]"),
        "The topics to read, by name. One that doesn't exist yet is read as soon as it does, and never created. "
        "Exactly one of topics, pattern and partitions is given, or assign-seek.",
        field="topics.names",
    ),
    "pattern": _queue_over_http(
        Pattern(),
        "A regular expression; all topics whose whole name matches are read, new ones from their earliest record.",
        field="topics.pattern",
    ),
    "partitions": _queue_over_http(
        PartitionLists(_TOPIC, Listing(Whole(0), "[0, 2]")),
        "Chosen partitions of topics; partitions that appear later aren't read.",
        field="topics.partitions",
    ),
    ASSIGN_SEEK: _smallrye(
        AssignSeek(),
        "Chosen partitions, and where each starts as long as the group has committed nothing there. The offset 0 is "
        "the beginning and -1 the end; without one, cursor or auto.offset.reset says where. Without a topic, it is "
        "the one that topics names. In place of pattern and partitions; topics may stand beside it.",
        field="topics.cursors",
    ),
    "members": _oci(
        Whole(1, 1_024, unit="tasks"),
        "How many landing tasks share a batch's partitions, by Kafka's range assignment, topic by topic.",
        default=1,
    ),
    "poll-timeout.ms": _hitachi(
        _ms(1),
        "How long a run waits for records, and how long each member then reads. When nothing came, the run ends as "
        "skipped. Also taken under Hitachi's own name, urecp-kafka.poll-timeout.ms.",
        default=60_000,
        alias="urecp-kafka.poll-timeout.ms",
    ),
    "commit-timeout.ms": _hitachi(
        _ms(1),
        "How long the broker may take to commit the offsets. Then the run fails, and the next one finds out what "
        "really happened. Also taken under Hitachi's own name, urecp-kafka.commit-timeout.ms.",
        default=15_000,
        alias="urecp-kafka.commit-timeout.ms",
    ),
    "unavailable-after.ms": Property(
        _ms(0),
        "How long no broker may answer: until then a run that got no answer ends as skipped, from then on it fails. "
        "It counts from the last answer that any run got, before the first one from the first try. With 0 the first "
        "such run fails.",
        default=600_000,
    ),
    "execution-timeout.ms": _airflow(
        _ms(1), "After how long Airflow stops a task, whatever it does. Rule R7 says how short it may be."
    ),
    "commit-strategy": _smallrye(
        Choice(tuple(COMMIT_POLICIES)),
        "When a batch's offsets are committed. after-processing: once its output is published. on-receipt: once it "
        "has landed, before it is processed. on-next-poll: when the next batch is planned. manual: when somebody says "
        "so, with `tidegate commit`. throttled: while the job runs, up to the oldest record that it hasn't "
        "acknowledged. latest: behind the highest record that it has acknowledged, whatever is missing before it. "
        "ignore: never; each run starts from the cursor. checkpoint: in the ledger in place of Kafka, together with "
        "the transform's state.",
        default="after-processing",
    ),
    "auto.commit.interval.ms": _kafka(
        _ms(0),
        "For throttled and latest: how often acknowledged records are committed while the job runs.",
        default=5_000,
        field="auto_commit_interval_ms",
        only_with=("commit-strategy", ("throttled", "latest")),
    ),
    "throttled.unprocessed-record-max-age.ms": _smallrye(
        _ms(0, others=(-1,)),
        "For throttled: how long a record may stay unacknowledged before its run fails and names it; 0 or -1 is for "
        "ever.",
        default=60_000,
        field="unprocessed_record_max_age_ms",
        only_with=("commit-strategy", ("throttled",)),
    ),
    "checkpoint.unsynced-state-max-age.ms": _smallrye(
        _ms(0, others=(-1,)),
        "For checkpoint: how long a new state may wait to be stored until status warns of it; 0 or -1 is for ever.",
        default=10_000,
        field="unsynced_state_max_age_ms",
        only_with=("commit-strategy", ("checkpoint",)),
    ),
    "failure-strategy": _smallrye(
        FailureStrategyName(tuple(FAILURE_POLICIES)),
        "What becomes of a record that the job rejects, and of a batch whose deliveries have all failed. fail: a "
        "rejected record fails its delivery, and at the limit the subscription stands still until `tidegate clear` "
        "lets it go on. ignore: rejected records stay in _rejected beside the output, and a batch that fails is "
        "committed and not published. dead-letter-queue: they go to a topic, in the commit's own transaction. "
        "delayed-retry-topic: they are tried again later, by way of topics with a delay. ask: as fail, and at the "
        "limit a person decides whether to redeliver, dead-letter, skip or stop.",
        default="fail",
    ),
    "dead-letter-queue.topic": _smallrye(
        _TOPIC,
        "The topic that dead letters go to, those of `tidegate clear --answer dead-letter` too; it isn't created. "
        "Without it, `dead-letter-topic-<subscription>`; but delayed-retry-topic then drops what has no retry left, "
        "and counts it.",
        only_with=("failure-strategy", ("dead-letter-queue", "delayed-retry-topic", "ask", "fail")),
        with_installed=True,
    ),
    "dead-letter-queue.limit": Property(
        RecordLimit(),
        "How many records of a batch may become dead letters, as a number or a share (which allows 10 in any batch, "
        "unless it is 0%); more fail the batch, and none is written. Without it, all may.",
        only_with=("failure-strategy", ("dead-letter-queue",)),
        with_installed=True,
    ),
    "delayed-retry-topic.topics": _smallrye(
        Listing(_RETRY_TOPIC, "[orders_retry_10000]"),
        "The retry topics in their order, the delay in ms at the end of each name; without it "
        "`<subscription>_retry_10000`, `_20000` and `_50000`. The subscription reads them by itself, each record when "
        "it is due.",
        only_with=("failure-strategy", ("delayed-retry-topic",)),
    ),
    "delayed-retry-topic.max-retries": _smallrye(
        Whole(1),
        "How often a record is tried again: beyond the last topic, by way of that one. Without it, once for each "
        "topic.",
        only_with=("failure-strategy", ("delayed-retry-topic",)),
    ),
    "delayed-retry-topic.timeout": _smallrye(
        _ms(1),
        "How long after its first processing a record may be due for another retry; later, it has none left.",
        default=120_000,
        field="delayed_retry_topic.timeout_ms",
        only_with=("failure-strategy", ("delayed-retry-topic",)),
    ),
    "commit-fence": Property(
        Choice(get_args(model.CommitFence)),
        "What keeps a stale worker from moving offsets: a transactional producer of the group's own, or, for clusters "
        "without transactions, only a comparison just before the commit.",
        default="transactional",
    ),
    "on-data-loss": Property(
        Choice(get_args(model.OnDataLoss)),
        "What happens when records that weren't read yet are gone from the broker: the run fails and names them, or "
        "those partitions, and only they, go on at their earliest record.",
        default="fail",
    ),
    "max-retries": _smallrye(
        Whole(0), "How often a failed delivery is tried again: n means n + 1 deliveries at most.", default=2
    ),
    "retry-delay.ms": _queue_over_http(_ms(0), "How long a failed task waits before it is tried again.", default=1_000),
    "fail-on-deserialization-failure": _smallrye(
        Flag(),
        "Whether a record that can't be decoded fails its batch. With false it is rejected, with its original bytes "
        "and the reason, and the other records go on.",
        default=True,
        field="deserialization.fails",
    ),
    "row-accounting": Property(
        Choice(get_args(model.RowAccounting)),
        "Whether every landed record must be written, rejected or filtered, one row each. With free a transform may "
        "explode records or aggregate them.",
        default="strict",
    ),
    "landing-engine": Property(
        Choice(get_args(model.LandingEngine)),
        "What reads a batch from Kafka and lands it: the task itself, or the executors of the Spark connection; see "
        "scaling.md.",
        default="python",
    ),
}
CONSUMER: Mapping[str, ConsumerProperty] = {
    "group.id": ConsumerProperty(
        Text(),
        "The consumer group whose offsets are committed. It belongs to this subscription alone.",
        field="consumer.group_id",
        required=True,
    ),
    "client.id": ConsumerProperty(Text(), "The name that the broker's logs and quotas know the client by."),
    "client.rack": ConsumerProperty(Text(), "Where the client is, so that it may read from a replica nearby."),
    "client.dns.lookup": ConsumerProperty(
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        "Which of a broker name's addresses are tried.",
    ),
    "max.poll.records": _not_for_clients(
        Whole(1, LONG_MAX, unit="records"),
        "How many records a batch has at most, over all partitions.",
        default=500,
        field="consumer.max_poll_records",
    ),
    "auto.offset.reset": _not_for_clients(
        Choice(get_args(model.OffsetReset), instead=(("by_duration:", "a cursor of type AT_TIME starts at a time"),)),
        "Where the very first batch starts. The start is committed at once, so that latest loses nothing between two "
        "empty runs; none fails.",
        default="latest",
        field="consumer.auto_offset_reset",
    ),
    "isolation.level": ConsumerProperty(
        Choice(get_args(model.IsolationLevel)),
        "Whether records of open and aborted transactions are left out. Java's default is read_uncommitted.",
        default="read_committed",
        field="consumer.isolation_level",
    ),
    "max.poll.interval.ms": ConsumerProperty(
        _ms(1, _DAY_MS),
        "How long a delivery may take from its start to its publish. A longer one is stopped, nothing is committed, "
        "and the batch is delivered again; with commit-strategy on-receipt it goes on.",
        default=300_000,
        in_spark=False,
        field="consumer.max_poll_interval_ms",
    ),
    "session.timeout.ms": ConsumerProperty(
        _ms(1, _HOUR_MS),
        "Checked against the other timeouts and passed on; without effect, since nobody joins the group.",
        default=45_000,
        in_spark=False,
    ),
    "heartbeat.interval.ms": ConsumerProperty(
        _ms(1, _HOUR_MS),
        "Checked against the session timeout and passed on; without effect, since nobody joins the group.",
        default=3_000,
        in_spark=False,
    ),
    "fetch.max.wait.ms": ConsumerProperty(
        _ms(0, 300_000),
        "How long the broker waits until it has fetch.min.bytes to send.",
        default=500,
        librdkafka="fetch.wait.max.ms",
    ),
    "fetch.min.bytes": ConsumerProperty(
        _bytes(0, 100_000_000), "How much the broker gathers before it answers a fetch.", default=1, floor=1
    ),
    "fetch.max.bytes": ConsumerProperty(
        _bytes(0, 2_147_483_135),
        "How much a fetch brings at most; one larger record still comes.",
        default=52_428_800,
        floor=1000,
    ),
    "max.partition.fetch.bytes": ConsumerProperty(
        _bytes(0, 1_000_000_000), "How much a fetch brings at most of one partition.", default=1_048_576, floor=1
    ),
    "connections.max.idle.ms": ConsumerProperty(
        _ms(1, others=(-1,)), "After how long an idle connection is closed; -1 is never.", default=540_000, floor=0
    ),
    "socket.connection.setup.timeout.ms": ConsumerProperty(
        _ms(1_000), "How long a connection may take to be set up.", default=10_000
    ),
    "socket.connection.setup.timeout.max.ms": ConsumerProperty(
        _ms(1_000),
        "The longest that a connection may take after several attempts. The client has no counterpart: it is only "
        "compared with the other timeouts.",
        default=30_000,
        librdkafka=None,
    ),
    "reconnect.backoff.ms": ConsumerProperty(
        _ms(0, _HOUR_MS), "How long to wait before connecting to a broker again.", default=50
    ),
    "reconnect.backoff.max.ms": ConsumerProperty(
        _ms(0, _HOUR_MS), "The longest wait before connecting again, after many failures.", default=1_000
    ),
    "retry.backoff.ms": ConsumerProperty(
        _ms(0, 300_000), "How long to wait before a failed request is sent again.", default=100, floor=1
    ),
    "retry.backoff.max.ms": ConsumerProperty(
        _ms(0, 300_000), "The longest wait before a request is sent again.", default=1_000, floor=1
    ),
    "metadata.max.age.ms": ConsumerProperty(
        _ms(0, _HOUR_MS),
        "After how long topics, partitions and leaders are asked for anew.",
        default=300_000,
        librdkafka="topic.metadata.refresh.interval.ms",
        floor=1,
    ),
    "metadata.recovery.strategy": ConsumerProperty(
        Choice(("rebootstrap", "none")), "What to do when none of the known brokers can be reached."
    ),
    "metadata.recovery.rebootstrap.trigger.ms": ConsumerProperty(
        _ms(0), "After how long without metadata the client starts from bootstrap.servers again."
    ),
    "request.timeout.ms": ConsumerProperty(
        _ms(10, 300_000), "How long a request may wait for its answer.", default=30_000, librdkafka="socket.timeout.ms"
    ),
    "receive.buffer.bytes": ConsumerProperty(
        _bytes(-1, 100_000_000),
        "The socket's receive buffer; unset or -1, the system decides.",
        librdkafka="socket.receive.buffer.bytes",
        floor=0,
    ),
    "send.buffer.bytes": ConsumerProperty(
        _bytes(-1, 100_000_000),
        "The socket's send buffer; unset or -1, the system decides.",
        librdkafka="socket.send.buffer.bytes",
        floor=0,
    ),
    "enable.metrics.push": ConsumerProperty(
        Flag(), "Whether the client sends its metrics to a broker that asks for them."
    ),
    "enable.auto.commit": _not_for_clients(
        Flag(
            only=False,
            reason="Tidegate commits offsets itself, when commit-strategy says so; on-receipt comes nearest to true",
        ),
        "Taken so that a configuration can be copied; only false is possible: commit-strategy says when offsets are "
        "committed.",
    ),
    "allow.auto.create.topics": ConsumerProperty(
        Flag(only=False, reason="a topic that is missing is an empty poll, never created"),
        "Taken so that a configuration can be copied; only false is possible.",
        librdkafka=None,
    ),
    "exclude.internal.topics": _not_for_clients(
        Flag(),
        "Whether a pattern leaves out the topics that Kafka keeps for itself, as __consumer_offsets.",
        default=True,
        field="topics.internal",
    ),
    "key.deserializer": _not_for_clients(
        DeserializerClass(),
        "How keys are decoded in Spark, by short name or Java class; bytes leaves them as they are.",
        default="bytes",
        field="deserialization.key.name",
    ),
    "value.deserializer": _not_for_clients(
        DeserializerClass(),
        "How values are decoded in Spark, by short name or Java class; bytes leaves them as they are.",
        default="bytes",
        field="deserialization.value.name",
    ),
    "key.deserializer.encoding": _not_for_clients(Charset(), "The charset of keys that are strings; UTF-8 without it."),
    "value.deserializer.encoding": _not_for_clients(
        Charset(), "The charset of values that are strings; UTF-8 without it."
    ),
    "deserializer.encoding": _not_for_clients(
        Charset(), "The charset of keys and values that are strings; UTF-8 without it."
    ),
    "check.crcs": ConsumerProperty(
        Flag(only=True, reason="a damaged record must not reach the lake"),
        "Taken so that a configuration can be copied; only true is possible.",
        librdkafka=None,
    ),
    "group.protocol": _not_for_clients(
        Choice(("classic",)), "Taken so that a configuration can be copied; nobody joins the group."
    ),
    "partition.assignment.strategy": _not_for_clients(
        Choice(("range", "org.apache.kafka.clients.consumer.RangeAssignor")),
        "Taken so that a configuration can be copied; members share partitions by range.",
    ),
}
CURSOR: Mapping[str, Property] = {
    "type": _oci(
        Choice(get_args(model.CursorType)),
        "Where a group that has never committed starts; a group that has ignores it, with a line in the log.",
    ),
    "time": _oci(Moment(), "For AT_TIME: the first record of each partition with this timestamp or a later one."),
    "offset": _oci(
        Whole(0, LONG_MAX - 1, unit="offset"),
        "For AT_OFFSET and AFTER_OFFSET: the offset, in each partition, to start at or after: at the earliest record "
        "where it has expired, at the end where the partition hasn't come so far. One that no partition has reached "
        "is refused.",
    ),
}
DESERIALIZATION: Mapping[str, Property] = {
    "key.encoding": Property(Charset(), "The same as consumer.key.deserializer.encoding: give one of them."),
    "key.schema": Property(
        JsonSchema(), "For keys in JSON: their columns in Spark's DDL, or a JSON Schema of an object."
    ),
    "value.encoding": Property(Charset(), "The same as consumer.value.deserializer.encoding: give one of them."),
    "value.schema": Property(
        JsonSchema(), "For values in JSON: their columns in Spark's DDL, or a JSON Schema of an object."
    ),
    "schema-registry": _airflow(
        _CONNECTION,
        "The id of the Airflow connection to the Schema Registry, for avro, protobuf and json-schema.",
        default="schema_registry_default",
        field="deserialization.registry",
    ),
}
PROCESSING: Mapping[str, Property] = {
    "connection": _airflow(
        _CONNECTION,
        "The id of the Airflow connection to Spark: of type spark (spark-submit) or spark_connect.",
        default="spark_default",
    ),
    "transform": Property(
        _FUNCTION,
        "The function, module:function in spark_jobs/, that makes a batch's records into rows. Without it they are "
        "written as they are.",
    ),
    "job": _spark(
        Text(shape="the path or URI of a Spark job"),
        "A Spark job of your own in place of Tidegate's, relative to the project. It applies no transform.",
    ),
    "output": Property(
        Output(),
        "The folder of the lake, a path relative to the project or a URI, that gets one folder for each batch. It "
        "belongs to this subscription alone.",
        required=True,
    ),
    "partition-by": _spark(
        Listing(_COLUMN, "[carrier]", empty=True),
        "The columns by whose values a batch's files are laid into folders.",
        default=(),
    ),
}

PROPERTIES: Mapping[str, Mapping[str, Property]] = {
    "": TOP,
    "consumer": CONSUMER,
    "cursor": CURSOR,
    "deserialization": DESERIALIZATION,
    "processing": PROCESSING,
}
"""The properties by their sections; "" is the top level."""

SECTIONS: Mapping[str, str] = {
    "consumer": "Kafka's consumer properties, under their Java names.",
    "cursor": "Where a group's very first batch starts, in the terms of OCI Streaming's cursors.",
    "deserialization": "The options of the deserializers that consumer.key.deserializer and value.deserializer name.",
    "processing": "What becomes of a batch's records.",
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
