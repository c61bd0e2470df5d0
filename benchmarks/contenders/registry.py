"""Who is measured: which program under contenders/, with which settings, and which columns it writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPARKS_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
NO_HEADERS = ("key", "value", "topic", "partition", "offset", "timestamp")
FIVE = ("key", "value", "partition", "offset", "timestamp")
FIELDS = ("order", "cents", "state", "at", "trace")


@dataclass(frozen=True)
class Contender:
    """One way to read a topic. `program` is its module, which gets `settings`; `columns` are those of its files.

    `foreign` is what the environment of benchmarks/requirements.lock has and the project's own hasn't, `tool` is a
    program that the machine must have, and `only_json` says that other values can't be read.
    """

    name: str
    program: str
    how: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    foreign: bool = False
    tool: str | None = None
    only_json: bool = False

    @property
    def writes(self) -> str:
        """The columns as text."""
        return ", ".join(self.columns) if self.columns else "nothing"


CONSUME = Contender(
    "consume(20,000)",
    "consume",
    "`confluent_kafka.Consumer.consume` in a loop that drops the messages; `fetch.queue.backoff.ms=2`",
    {"batch": 20_000},
)
CONSUME_LESS = Contender(
    "consume(2,000)",
    "consume",
    "the same with as many messages a call as Tidegate takes, which stay in the processor's cache",
    {"batch": 2_000},
)
KCAT = Contender(
    "kcat",
    "kcat",
    "the C program on librdkafka, prints nothing; `fetch.error.backoff.ms=0`, by which its version is throttled",
    tool="kcat",
)
LAND = Contender("Tidegate, 1 member", "land", "the land step, its files synced", columns=SPARKS_COLUMNS)
LAND_TWO = Contender(
    "Tidegate, 2 members", "land_together", "two processes, each with its share", {"members": 2}, SPARKS_COLUMNS
)
SPARK_WARM = Contender(
    "Spark's Kafka source, warm",
    "spark_source",
    "batch, `local[2]`, in a session that has read the topic three times; "
    "`kafka.max.poll.records=20000`, larger fetches, lz4",
    columns=SPARKS_COLUMNS,
)
SPARK_COLD = Contender(
    "Spark's Kafka source, cold",
    "spark_cold",
    "the same by `spark-submit`, from its start to its end",
    columns=SPARKS_COLUMNS,
)
AIRFLOW = Contender(
    "Airflow's operator",
    "airflow_operator",
    "ConsumeFromTopicOperator with a batch function that writes a row group of lz4; `max_batch_size=2000`, "
    "`fetch.queue.backoff.ms=2`; the task around it isn't counted",
    {"batch": 2_000},
    FIVE,
    foreign=True,
)
DLT = Contender(
    "dlt",
    "dlt_resource",
    "a resource that yields Arrow tables of 20,000 records; `fetch.queue.backoff.ms=2`, lz4",
    {"batch": 20_000},
    FIVE,
    foreign=True,
)
MQ_BRIDGE = Contender(
    "mq-bridge",
    "mq_bridge_route",
    "a route to Parquet objects, values parsed, neither synced nor with keys and offsets; `batch_size=20000`, "
    "`concurrency=2`, `fetch.queue.backoff.ms=2`, uncompressed, which costs it the least; its group's join is counted",
    {"batch": 20_000, "concurrency": 2, "fsync": "off", "compression": "none"},
    FIELDS,
    foreign=True,
    only_json=True,
)
KAFKARROW = Contender(
    "kafkarrow",
    "kafkarrow",
    "polls of 20,000 records, written by pyarrow, lz4; it never commits and can't start at an offset; "
    "`fetch.queue.backoff.ms=2`",
    {"batch": 20_000},
    NO_HEADERS,
    foreign=True,
)

ALL = (
    CONSUME,
    CONSUME_LESS,
    KCAT,
    LAND,
    LAND_TWO,
    SPARK_WARM,
    SPARK_COLD,
    AIRFLOW,
    DLT,
    MQ_BRIDGE,
    KAFKARROW,
)
SHORT = (CONSUME_LESS, LAND, LAND_TWO)
"""Those that need nothing but the project's own environment, and little time."""
