"""What each property of a definition does, and which system its name comes from.

Kept apart from the tables that check definitions, because only the reference page and the JSON Schema need it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Origin = Literal["Kafka", "Hitachi", "SmallRye", "OCI Streaming", "Queue-Over-Http", "Airflow", "Spark", "Tidegate"]


@dataclass(frozen=True)
class Description:
    """What a property does, in one or two sentences, and whose name it bears."""

    origin: Origin
    says: str


_TOP: Mapping[str, Description] = {
    "description": Description("Airflow", "What the subscription is for. Airflow shows it beside the DAG."),
    "schedule": Description(
        "Airflow", "When a run starts: a cron expression or one of Airflow's presets. Without it, only when triggered."
    ),
    "connection": Description(
        "Airflow",
        "The id of the Airflow connection to Kafka, which has the addresses and the credentials: bootstrap.servers, "
        "security.protocol and all that begins with sasl or ssl.",
    ),
    "topics": Description(
        "Queue-Over-Http",
        "The topics to read, by name. One that doesn't exist yet is read as soon as it does, and never created. "
        "Exactly one of topics, pattern and partitions is given, or assign-seek.",
    ),
    "pattern": Description(
        "Queue-Over-Http",
        "A regular expression; all topics whose whole name matches are read, new ones from their earliest record.",
    ),
    "partitions": Description(
        "Queue-Over-Http", "Chosen partitions of topics; partitions that appear later aren't read."
    ),
    "assign-seek": Description(
        "SmallRye",
        "Chosen partitions, and where each starts as long as the group has committed nothing there. The offset 0 is "
        "the beginning and -1 the end; without one, cursor or auto.offset.reset says where. Without a topic, it is the "
        "one that topics names. In place of pattern and partitions; topics may stand beside it.",
    ),
    "members": Description(
        "OCI Streaming",
        "How many landing tasks share a batch's partitions, by Kafka's range assignment, topic by topic.",
    ),
    "poll-timeout.ms": Description(
        "Hitachi",
        "How long a run waits for records, and how long each member then reads. When nothing came, the run ends as "
        "skipped. Also taken under Hitachi's own name, urecp-kafka.poll-timeout.ms.",
    ),
    "commit-timeout.ms": Description(
        "Hitachi",
        "How long the broker may take to commit the offsets. Then the run fails, and the next one finds out what "
        "really happened. Also taken under Hitachi's own name, urecp-kafka.commit-timeout.ms.",
    ),
    "unavailable-after.ms": Description(
        "Tidegate",
        "How long no broker may answer: until then a run that got no answer ends as skipped, from then on it fails. "
        "It counts from the last answer that any run got, before the first one from the first try. With 0 the first "
        "such run fails.",
    ),
    "execution-timeout.ms": Description(
        "Airflow", "After how long Airflow stops a task, whatever it does. Rule R7 says how short it may be."
    ),
    "commit-strategy": Description(
        "SmallRye",
        "When a batch's offsets are committed. after-processing: once its output is published. on-receipt: once it has "
        "landed, before it is processed. on-next-poll: when the next batch is planned. manual: when somebody says so, "
        "with `tidegate commit`. throttled: while the job runs, up to the oldest record that it hasn't acknowledged. "
        "latest: behind the highest record that it has acknowledged, whatever is missing before it. ignore: never; "
        "each run starts from the cursor. checkpoint: in the ledger in place of Kafka, together with the transform's "
        "state.",
    ),
    "auto.commit.interval.ms": Description(
        "Kafka", "For throttled and latest: how often acknowledged records are committed while the job runs."
    ),
    "throttled.unprocessed-record-max-age.ms": Description(
        "SmallRye",
        "For throttled: how long a record may stay unacknowledged before its run fails and names it; 0 or -1 is for "
        "ever.",
    ),
    "checkpoint.unsynced-state-max-age.ms": Description(
        "SmallRye",
        "For checkpoint: how long a new state may wait to be stored until status warns of it; 0 or -1 is for ever.",
    ),
    "failure-strategy": Description(
        "SmallRye",
        "What becomes of a record that the job rejects, and of a batch whose deliveries have all failed. fail: a "
        "rejected record fails its delivery, and at the limit the subscription stands still until `tidegate clear` "
        "lets it go on. ignore: rejected records stay in _rejected beside the output, and a batch that fails is "
        "committed and not published. dead-letter-queue: they go to a topic, in the commit's own transaction. "
        "delayed-retry-topic: they are tried again later, by way of topics with a delay. ask: as fail, and at the "
        "limit a person decides whether to redeliver, dead-letter, skip or stop.",
    ),
    "dead-letter-queue.topic": Description(
        "SmallRye",
        "The topic that dead letters go to, those of `tidegate clear --answer dead-letter` too; it isn't created. "
        "Without it, `dead-letter-topic-<subscription>`; but delayed-retry-topic then drops what has no retry left, "
        "and counts it.",
    ),
    "dead-letter-queue.limit": Description(
        "Tidegate",
        "How many records of a batch may become dead letters, as a number or a share (which allows 10 in any batch, "
        "unless it is 0%); more fail the batch, and none is written. Without it, all may.",
    ),
    "delayed-retry-topic.topics": Description(
        "SmallRye",
        "The retry topics in their order, the delay in ms at the end of each name; without it "
        "`<subscription>_retry_10000`, `_20000` and `_50000`. The subscription reads them by itself, each record "
        "when it is due.",
    ),
    "delayed-retry-topic.max-retries": Description(
        "SmallRye",
        "How often a record is tried again: beyond the last topic, by way of that one. Without it, once for each "
        "topic.",
    ),
    "delayed-retry-topic.timeout": Description(
        "SmallRye",
        "How long after its first processing a record may be due for another retry; later, it has none left.",
    ),
    "commit-fence": Description(
        "Tidegate",
        "What keeps a stale worker from moving offsets: a transactional producer of the group's own, or, for clusters "
        "without transactions, only a comparison just before the commit.",
    ),
    "on-data-loss": Description(
        "Tidegate",
        "What happens when records that weren't read yet are gone from the broker: the run fails and names them, or "
        "those partitions, and only they, go on at their earliest record.",
    ),
    "max-retries": Description(
        "SmallRye", "How often a failed delivery is tried again: n means n + 1 deliveries at most."
    ),
    "retry-delay.ms": Description("Queue-Over-Http", "How long a failed task waits before it is tried again."),
    "fail-on-deserialization-failure": Description(
        "SmallRye",
        "Whether a record that can't be decoded fails its batch. With false it is rejected, with its original bytes "
        "and the reason, and the other records go on.",
    ),
    "row-accounting": Description(
        "Tidegate",
        "Whether every landed record must be written, rejected or filtered, one row each. With free a transform may "
        "explode records or aggregate them.",
    ),
    "landing-engine": Description(
        "Tidegate",
        "What reads a batch from Kafka and lands it: the task itself, "
        "or the executors of the Spark connection; see scaling.md.",
    ),
}
_CONSUMER: Mapping[str, Description] = {
    "group.id": Description(
        "Kafka", "The consumer group whose offsets are committed. It belongs to this subscription alone."
    ),
    "client.id": Description("Kafka", "The name that the broker's logs and quotas know the client by."),
    "client.rack": Description("Kafka", "Where the client is, so that it may read from a replica nearby."),
    "client.dns.lookup": Description("Kafka", "Which of a broker name's addresses are tried."),
    "max.poll.records": Description("Kafka", "How many records a batch has at most, over all partitions."),
    "auto.offset.reset": Description(
        "Kafka",
        "Where the very first batch starts. The start is "
        "committed at once, so that latest loses nothing between two empty runs; none fails.",
    ),
    "isolation.level": Description(
        "Kafka",
        "Whether records of open and aborted transactions are left out. Java's default is read_uncommitted.",
    ),
    "max.poll.interval.ms": Description(
        "Kafka",
        "How long a delivery may take from its start to its publish. A longer one is stopped, nothing is committed, "
        "and the batch is delivered again; with commit-strategy on-receipt it goes on.",
    ),
    "session.timeout.ms": Description(
        "Kafka", "Checked against the other timeouts and passed on; without effect, since nobody joins the group."
    ),
    "heartbeat.interval.ms": Description(
        "Kafka", "Checked against the session timeout and passed on; without effect, since nobody joins the group."
    ),
    "fetch.max.wait.ms": Description("Kafka", "How long the broker waits until it has fetch.min.bytes to send."),
    "fetch.min.bytes": Description("Kafka", "How much the broker gathers before it answers a fetch."),
    "fetch.max.bytes": Description("Kafka", "How much a fetch brings at most; one larger record still comes."),
    "max.partition.fetch.bytes": Description("Kafka", "How much a fetch brings at most of one partition."),
    "connections.max.idle.ms": Description("Kafka", "After how long an idle connection is closed; -1 is never."),
    "socket.connection.setup.timeout.ms": Description("Kafka", "How long a connection may take to be set up."),
    "socket.connection.setup.timeout.max.ms": Description(
        "Kafka",
        "The longest that a connection may take after several attempts. The client has no counterpart: it is only "
        "compared with the other timeouts.",
    ),
    "reconnect.backoff.ms": Description("Kafka", "How long to wait before connecting to a broker again."),
    "reconnect.backoff.max.ms": Description("Kafka", "The longest wait before connecting again, after many failures."),
    "retry.backoff.ms": Description("Kafka", "How long to wait before a failed request is sent again."),
    "retry.backoff.max.ms": Description("Kafka", "The longest wait before a request is sent again."),
    "metadata.max.age.ms": Description("Kafka", "After how long topics, partitions and leaders are asked for anew."),
    "metadata.recovery.strategy": Description("Kafka", "What to do when none of the known brokers can be reached."),
    "metadata.recovery.rebootstrap.trigger.ms": Description(
        "Kafka", "After how long without metadata the client starts from bootstrap.servers again."
    ),
    "request.timeout.ms": Description("Kafka", "How long a request may wait for its answer."),
    "receive.buffer.bytes": Description("Kafka", "The socket's receive buffer; unset or -1, the system decides."),
    "send.buffer.bytes": Description("Kafka", "The socket's send buffer; unset or -1, the system decides."),
    "enable.metrics.push": Description("Kafka", "Whether the client sends its metrics to a broker that asks for them."),
    "enable.auto.commit": Description(
        "Kafka",
        "Taken so that a configuration can be copied; only false is possible: commit-strategy says when offsets are "
        "committed.",
    ),
    "allow.auto.create.topics": Description(
        "Kafka", "Taken so that a configuration can be copied; only false is possible."
    ),
    "exclude.internal.topics": Description(
        "Kafka", "Whether a pattern leaves out the topics that Kafka keeps for itself, as __consumer_offsets."
    ),
    "key.deserializer": Description(
        "Kafka", "How keys are decoded in Spark, by short name or Java class; bytes leaves them as they are."
    ),
    "value.deserializer": Description(
        "Kafka", "How values are decoded in Spark, by short name or Java class; bytes leaves them as they are."
    ),
    "key.deserializer.encoding": Description("Kafka", "The charset of keys that are strings; UTF-8 without it."),
    "value.deserializer.encoding": Description("Kafka", "The charset of values that are strings; UTF-8 without it."),
    "deserializer.encoding": Description("Kafka", "The charset of keys and values that are strings; UTF-8 without it."),
    "check.crcs": Description("Kafka", "Taken so that a configuration can be copied; only true is possible."),
    "group.protocol": Description("Kafka", "Taken so that a configuration can be copied; nobody joins the group."),
    "partition.assignment.strategy": Description(
        "Kafka", "Taken so that a configuration can be copied; members share partitions by range."
    ),
}
_CURSOR: Mapping[str, Description] = {
    "type": Description(
        "OCI Streaming",
        "Where a group that has never committed starts; a group that has ignores it, with a line in the log.",
    ),
    "time": Description(
        "OCI Streaming", "For AT_TIME: the first record of each partition with this timestamp or a later one."
    ),
    "offset": Description(
        "OCI Streaming",
        "For AT_OFFSET and AFTER_OFFSET: the offset, in each partition, to start at or after: at the earliest record "
        "where it has expired, at the end where the partition hasn't come so far. One that no partition has reached is "
        "refused.",
    ),
}
_DESERIALIZATION: Mapping[str, Description] = {
    "key.encoding": Description("Tidegate", "The same as consumer.key.deserializer.encoding: give one of them."),
    "key.schema": Description(
        "Tidegate", "For keys in JSON: their columns in Spark's DDL, or a JSON Schema of an object."
    ),
    "value.encoding": Description("Tidegate", "The same as consumer.value.deserializer.encoding: give one of them."),
    "value.schema": Description(
        "Tidegate", "For values in JSON: their columns in Spark's DDL, or a JSON Schema of an object."
    ),
    "schema-registry": Description(
        "Airflow", "The id of the Airflow connection to the Schema Registry, for avro, protobuf and json-schema."
    ),
}
_PROCESSING: Mapping[str, Description] = {
    "connection": Description(
        "Airflow", "The id of the Airflow connection to Spark: of type spark (spark-submit) or spark_connect."
    ),
    "transform": Description(
        "Tidegate",
        "The function, module:function in spark_jobs/, that makes a batch's records into rows. Without it they are "
        "written as they are.",
    ),
    "job": Description(
        "Spark", "A Spark job of your own in place of Tidegate's, relative to the project. It applies no transform."
    ),
    "output": Description(
        "Tidegate",
        "The folder of the lake, a path relative to the project or a URI, that gets one folder for each batch. It "
        "belongs to this subscription alone.",
    ),
    "partition-by": Description("Spark", "The columns by whose values a batch's files are laid into folders."),
}

DESCRIPTIONS: Mapping[str, Mapping[str, Description]] = {
    "": _TOP,
    "consumer": _CONSUMER,
    "cursor": _CURSOR,
    "deserialization": _DESERIALIZATION,
    "processing": _PROCESSING,
}
SECTIONS: Mapping[str, str] = {
    "consumer": "Kafka's consumer properties, under their Java names.",
    "cursor": "Where a group's very first batch starts, in the terms of OCI Streaming's cursors.",
    "deserialization": "The options of the deserializers that consumer.key.deserializer and value.deserializer name.",
    "processing": "What becomes of a batch's records.",
}


def unit(name: str) -> str:
    """The unit of a property's numbers, by its name; empty if it has none."""
    units = {
        ".ms": "milliseconds",
        ".timeout": "milliseconds",
        ".bytes": "bytes",
        ".records": "records",
        "members": "tasks",
        "offset": "offset",
    }
    return next((unit for end, unit in units.items() if name.endswith(end)), "")
