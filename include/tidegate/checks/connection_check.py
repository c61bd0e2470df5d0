"""The checks behind `tidegate check --connect`: what usable definitions lack outside. Nothing is changed there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, wraps
from threading import Lock
from typing import ParamSpec, TypeVar

from tidegate.config.check import Report
from tidegate.config.drafts import Draft
from tidegate.config.nearest import nearest
from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings, variable
from tidegate.config.strategies import DEAD_LETTERS, RETRIES
from tidegate.kafka.probe import READ, WRITE, ClusterProbe
from tidegate.ledger.holders import require_writable
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import PartitioningError, TidegateError, UnauthorizedError, UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.output_uri import IcebergTable, connections_of, parse_output
from tidegate.model.subscription import (
    DeserializerName,
    Problem,
    Severity,
    Subscription,
    TopicNames,
    TopicPartitions,
    TopicPattern,
)
from tidegate.parquet.known_stores import object_place, object_system, use_connections
from tidegate.parquet.object_stores import object_store
from tidegate.ports import Connections, SchemaType
from tidegate.runtime.lakes import table_log_of
from tidegate.runtime.looks import in_order
from tidegate.runtime.processor import http_processor_of
from tidegate.security.client import kafka_client
from tidegate.security.java import java_client
from tidegate.spark.job import refuse_distance
from tidegate.spark.probe import spark_lacks
from tidegate.steps.produced_topics import said_missing

SECONDS = 10.0
"""How long each question may take, but for a session of Spark Connect."""

_GROUP = "consumer.group.id"
_REGISTRY = "deserialization.schema-registry"
_SPARK = "processing.connection"
_OUTPUT = "processing.output"
_PARTITION_BY = "processing.partition-by"
_LANDING = variable("landing")
P = ParamSpec("P")
T = TypeVar("T")

_KINDS: Mapping[DeserializerName, SchemaType] = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


def connected(report: Report, settings: Settings, connections: Connections, seconds: float = SECONDS) -> Report:
    """The report, with what each usable definition lacks outside.

    Several are looked at at once; what they have in common is asked once.
    """
    use_connections(connections)
    outside = _Outside(settings, connections, seconds)
    drafts = {str(draft[0].file): draft for draft in report.usable}

    def look(file: str) -> list[Problem]:
        return [*_Examination(drafts[file], outside).problems()]

    found = [problem for each in in_order([*drafts], look) for problem in each]
    found += _problems_of_all(settings, outside)
    broken = {problem.file for problem in found if problem.severity == "error"}
    usable = tuple(draft for draft in report.usable if str(draft[0].file) not in broken)
    return replace(report, usable=usable, problems=(*report.problems, *found))


def _problems_of_all(settings: Settings, outside: "_Outside") -> Iterator[Problem]:
    """What no definition can do without: the bucket of the landing, and the ledger."""
    if lacking := outside.landing():
        yield Problem(f"{_LANDING}: {lacking}", "no-landing", file=str(settings.subscriptions))
    unused = _attempt(lambda: require_writable(settings.ledger))
    if isinstance(unused, TidegateError):
        yield Problem(str(unused), "no-ledger", file=str(settings.subscriptions))


class _Outside:
    """The systems that definitions name, each asked once."""

    def __init__(self, settings: Settings, connections: Connections, seconds: float) -> None:
        self._settings = settings
        self._connections = connections
        self._seconds = seconds
        self.cluster = _in_turn(cache(self._cluster))
        self.partitions = _in_turn(cache(self._partitions))
        self.registry = _in_turn(cache(self._registry))
        self.spark = _in_turn(cache(self._spark))
        self._unusable: dict[tuple[str | None, str], TidegateError | None] = {}
        self._bucket = _in_turn(self._bucket_lacks)
        self._store = _in_turn(cache(self._store_lacks))
        self._catalog = _in_turn(cache(self._catalog_has))

    def landing(self) -> TidegateError | None:
        """Why the bucket of the landing can't be used."""
        return self._bucket(self._settings.landing)

    def output(self, subscription: Subscription) -> TidegateError | None:
        """Why the bucket of a subscription's output, its catalog, or the table that is there can't be used."""
        uri = output_uri(self._settings.home, subscription.processing)
        output = parse_output(uri)
        if isinstance(output, IcebergTable):
            found = self._catalog(output)
            if isinstance(found, TidegateError):
                return found
            return self._table_refuses(uri, subscription) if found else None
        if lacking := self._bucket(output.folder):
            return lacking
        is_here = output.format == "delta" and not connections_of(output.folder)
        is_asked = is_here or object_place(output.folder) is not None
        return self._table_refuses(uri, subscription) if is_asked else None

    def _table_refuses(self, uri: str, subscription: Subscription) -> TidegateError | None:
        log = table_log_of(uri, self._connections)
        answer = _attempt(lambda: log.require_writable(uri, subscription.processing.partition_by))
        return answer if isinstance(answer, TidegateError) else None

    def unlike_java(self, connection_id: str) -> TidegateError | None:
        """Why Spark's executors, whose client is Java's, can't use a Kafka connection."""
        answer = _attempt(lambda: java_client(self._connections.get(connection_id)))
        return answer if isinstance(answer, TidegateError) else None

    def distant(self, connection_id: str) -> TidegateError | None:
        """Why no landing job can be started over a Spark connection."""
        return _attempt(lambda: refuse_distance(self._connections.get(connection_id)))

    def http_server(self, subscription: Subscription) -> str | None:
        """What stands in the way of requests to a subscription's server."""
        endpoint = subscription.processing.endpoint
        if endpoint is None:
            return None
        answer = _attempt(http_processor_of(subscription, endpoint, self._settings, self._connections).reach)
        return str(answer) if isinstance(answer, TidegateError) else None

    def _cluster(self, connection_id: str) -> ClusterProbe:
        return ClusterProbe(kafka_client(self._connections.get(connection_id)), self._seconds)

    def _partitions(self, connection_id: str) -> tuple[TopicPartition, ...] | TidegateError:
        """All partitions of a cluster, or why they aren't to be had."""
        return _attempt(lambda: self.cluster(connection_id).partitions())

    def _registry(self, connection_id: str, kind: SchemaType) -> TidegateError | None:
        """Why a Schema Registry doesn't answer."""
        from tidegate.kafka.schema_registry import ConfluentRegistry  # noqa: PLC0415 (its HTTP and OAuth take their time)

        registry = ConfluentRegistry(self._connections, connection_id)
        answer = _attempt(lambda: registry.latest("tidegate-check", kind))
        return answer if isinstance(answer, TidegateError) else None

    def _bucket_lacks(self, uri: str) -> TidegateError | None:
        """Why the store of a folder can't be used; None for a folder of a file system.

        A bucket is asked again only where it refused a folder, as it may allow another one. Of stores of other
        protocols than S3's the connection alone is looked at.
        """
        place = object_place(uri)
        if place is None:
            return next(filter(None, map(self._store, connections_of(uri))), None)
        bucket = (place.connection, place.bucket)
        if bucket not in self._unusable:
            lacking = _attempt(lambda: object_system(place))
            if isinstance(lacking, UnauthorizedError):
                return lacking
            self._unusable[bucket] = lacking if isinstance(lacking, TidegateError) else None
        return self._unusable[bucket]

    def _store_lacks(self, connection_id: str) -> TidegateError | None:
        """Why a connection is no object store's."""
        answer = _attempt(lambda: object_store(self._connections.get(connection_id)))
        return answer if isinstance(answer, TidegateError) else None

    def _catalog_has(self, table: IcebergTable) -> bool | TidegateError:
        """Whether a table is there, or why its catalog, or the bucket of its warehouse, can't be used."""
        from tidegate.lake.iceberg.catalogs import probe_catalog  # noqa: PLC0415 (needs tidegate[iceberg])

        return _attempt(lambda: probe_catalog(self._connections.get(table.catalog), table.identifier))

    def _spark(self, connection_id: str) -> str | None:
        """What a Spark connection lacks."""
        answer = _attempt(lambda: spark_lacks(self._connections.get(connection_id), self._seconds))
        return str(answer) if isinstance(answer, TidegateError) else answer


@dataclass(frozen=True, slots=True)
class _Examination:
    """What one definition lacks outside."""

    draft: Draft
    outside: _Outside

    def problems(self) -> Iterator[Problem]:
        """In the order: brokers, topics, rights, Schema Registry, output, Spark or the HTTP server."""
        partitions = self.outside.partitions(self._subscription.connection)
        if isinstance(partitions, TidegateError):
            yield self._problem("connection", f"connection: {partitions}", "no-broker")
        else:
            yield from self._topic_problems(frozenset(partitions))
            yield from self._right_problems({tp.topic for tp in partitions})
        yield from self._landing_problems(partitions)
        registry = self._subscription.deserialization.registry
        if registry is not None:
            refused = self.outside.registry(registry, self._schema_type)
            if refused is not None:
                yield self._problem(_REGISTRY, f"{_REGISTRY}: {refused}", "no-registry")
        if lacking := self.outside.output(self._subscription):
            path = _PARTITION_BY if isinstance(lacking, PartitioningError) else _OUTPUT
            yield self._problem(path, f"{path}: {lacking}", "no-output")
        yield from self._processing_problems()

    def _processing_problems(self) -> Iterator[Problem]:
        processing = self._subscription.processing
        if processing.endpoint is not None:
            refused = self.outside.http_server(self._subscription)
            if refused is not None:
                said = f"processing.uri: {refused.removeprefix('processing.uri: ')}"
                yield self._problem("processing.uri", said, "no-server")
            return
        lacks = self.outside.spark(processing.connection)
        if lacks is not None:
            yield self._problem(_SPARK, f"{_SPARK} {processing.connection}: {lacks}", "no-spark")
        elif self._lands_by_spark and (distant := self.outside.distant(processing.connection)):
            yield self._problem(_SPARK, f"{_SPARK}: {distant}", "no-landing")

    def _landing_problems(self, told: object) -> Iterator[Problem]:
        """What keeps Spark's executors from reading, but for what was told of the connection already."""
        refused = self.outside.unlike_java(self._subscription.connection) if self._lands_by_spark else None
        if refused is not None and str(refused) != str(told):
            yield self._problem("connection", str(refused), "no-landing")

    def _topic_problems(self, partitions: frozenset[TopicPartition]) -> Iterator[Problem]:
        topics = {tp.topic for tp in partitions}
        match self._subscription.topics:
            case TopicNames(names):
                yield from (self._missing("topics", name, topics) for name in names if name not in topics)
            case TopicPartitions(chosen):
                yield from (self._missing("partitions", name, topics) for name in chosen if name not in topics)
                for name, numbers in chosen.items():
                    lacking = [number for number in numbers if TopicPartition(name, number) not in partitions]
                    if name in topics and lacking:
                        text = f"partitions: topic {name} has no partition {', '.join(map(str, lacking))}"
                        yield self._problem("partitions", text, "no-topic")
            case TopicPattern() as pattern:
                if not any(pattern.takes(name) for name in topics):
                    text = f"pattern {pattern.pattern} matches no topic that is there: it is read once there is one"
                    yield self._problem("pattern", text, "no-topic", "warning")
        yield from self._produced_problems(topics)

    def _missing(self, path: str, topic: str, topics: set[str]) -> Problem:
        near = nearest(topic, (name for name in topics if not name.startswith("__")))
        hint = f"did you mean {near}?" if near else "create it, or correct its name"
        text = f"{path}: topic {topic} isn't there, or the connection's user may not see it; {hint}"
        return self._problem(path, text, "no-topic")

    def _produced_problems(self, topics: set[str]) -> Iterator[Problem]:
        dead, needed = self._subscription.dead_letter_topic, self._subscription.produced_topics
        for topic in self._subscription.retry_topics:
            if topic not in topics:
                yield self._problem(RETRIES, said_missing(self._subscription, topic), "no-topic")
        if dead is not None and dead not in topics:
            text = said_missing(self._subscription, dead)
            if dead in needed:
                yield self._problem(DEAD_LETTERS, text, "no-topic")
            else:
                text = f"{text}; until then the answer dead-letter fails"
                yield self._problem(DEAD_LETTERS, text, "no-topic", "warning")

    def _right_problems(self, topics: set[str]) -> Iterator[Problem]:
        """What the connection's user may not do. Without an answer nothing is known, which is said."""
        try:
            for topic, operation in self._cluster.topic_refusals(self._needed(topics)):
                path = "connection"
                text = f"{path}: its user lacks {operation} on topic {topic}: allow it by an ACL"
                yield self._problem(path, text, "not-allowed")
            if self._subscription.commit_policy.store is PositionStore.KAFKA:
                yield from self._group_problems()
        except UnavailableError as away:
            yield self._problem("connection", f"connection: {away}; its rights aren't known", "no-broker")

    def _group_problems(self) -> Iterator[Problem]:
        group = self._subscription.consumer.group_id
        members, refused = self._cluster.group(group)
        if members:
            text = (
                f"{_GROUP} {group} has live members, and nothing is committed while there are any: {'; '.join(members)}"
            )
            yield self._problem(_GROUP, text, "group-in-use")
        for operation in refused:
            text = f"{_GROUP}: the connection's user lacks {operation} on group {group}: allow it by an ACL"
            yield self._problem(_GROUP, text, "not-allowed")
        if self._subscription.commit_fence == "transactional":
            transactional_id = f"tidegate-{group}"
            if self._cluster.refuses_transactions(transactional_id):
                text = (
                    f"commit-fence: the connection's user lacks Write on the transactional id {transactional_id}: "
                    "allow it by an ACL, or set commit-fence: none"
                )
                yield self._problem("commit-fence", text, "not-allowed")

    def _needed(self, topics: set[str]) -> dict[str, tuple[str, ...]]:
        """What is to be done with each topic that is there."""
        subscription = self._subscription
        read = {name for name in topics if subscription.topics.takes(name)} | set(subscription.retry_topics)
        written = {*subscription.retry_topics, *filter(None, [subscription.dead_letter_topic])}
        return {
            topic: tuple(operation for operation, of in ((READ, read), (WRITE, written)) if topic in of)
            for topic in sorted(read | written)
            if topic in topics
        }

    @property
    def _subscription(self) -> Subscription:
        return self.draft[1]

    @property
    def _lands_by_spark(self) -> bool:
        return self._subscription.landing_engine == "spark"

    @property
    def _cluster(self) -> ClusterProbe:
        return self.outside.cluster(self._subscription.connection)

    @property
    def _schema_type(self) -> SchemaType:
        sides = (self._subscription.deserialization.key, self._subscription.deserialization.value)
        return next((_KINDS[side.name] for side in sides if side.name in _KINDS), "AVRO")

    def _problem(self, path: str, message: str, rule: str, severity: Severity = "error") -> Problem:
        reading = self.draft[0]
        return Problem(message, rule, path, None, severity, str(reading.file), reading.line(path))


def _in_turn(question: Callable[P, T]) -> Callable[P, T]:
    """One after the other, whatever thread asks: who comes later finds what the first remembers."""
    lock = Lock()

    @wraps(question)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return question(*args, **kwargs)

    return ask


def _attempt(question: Callable[[], T]) -> T | TidegateError:
    """The answer, or why there is none."""
    try:
        return question()
    except TidegateError as error:
        return error
