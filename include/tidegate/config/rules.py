"""The rules between a definition's properties, and the values that several of them make together.

`found` is what the file gives, `good` the part of it that may stand, both by section.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from tidegate.config import consumer_properties, timeouts
from tidegate.config.airflow_defaults import AIRFLOW, DEFAULTS_FILE
from tidegate.config.assign_seek import ASSIGN_SEEK, is_given, portions, selection
from tidegate.config.deserializers import REGISTERED, charset, short_name
from tidegate.config.extras import missing, older_airflow
from tidegate.config.findings import Findings
from tidegate.config.http_values import is_like_a_credential
from tidegate.config.property_table import (
    DESERIALIZATION,
    EXECUTION_TIMEOUT,
    PROCESSING,
    REQUIRED,
    fields,
    path_of,
    with_defaults,
)
from tidegate.config.schemas import schema_text
from tidegate.config.sections import Values
from tidegate.config.settings import scheme
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, PositionStore
from tidegate.model.failure_policy import failure_policy
from tidegate.model.subscription import (
    Cursor,
    Deserialization,
    Deserializer,
    HttpEndpoint,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)

_ASKS = (3, 3)
"""The first version of Airflow whose tasks can wait for a person."""

_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}|\$\{\w+\}|(?:^|\W)\$[A-Z][A-Z_]+\b", re.DOTALL)
_OWN_LANGUAGE = frozenset({"pattern", "processing.body"})
"""Properties whose texts may look like one, and aren't."""

_TIMEOUT = (AIRFLOW, EXECUTION_TIMEOUT)
NEEDED_BY_CURSOR: Mapping[str, str] = {"AT_TIME": "time", "AT_OFFSET": "offset", "AFTER_OFFSET": "offset"}


def check_required(found: Mapping[str, Values], findings: Findings) -> None:
    """A definition gives what has no default: a group and an output."""
    for section, name in REQUIRED:
        if found[section].get(name) is None:
            path = path_of(section, name)
            findings.add(path, f"{path} is missing: it has no default", "required")


def check_rendered(found: Mapping[str, Values], findings: Findings) -> None:
    """Nothing is rendered but the body of a request, whatever Airflow does to the arguments of its operators."""
    for section, values in found.items():
        for name, value in values.items():
            path = path_of(section, name)
            if path not in _OWN_LANGUAGE and any(_TEMPLATE.search(text) for text in _texts(value)):
                text = f"{path} is taken as it is written: nothing here is rendered, no template and no variable"
                findings.add(path, text, "not-rendered", value, "warning")


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            yield from filter(lambda each: isinstance(each, str), value)
        case dict():
            yield from filter(lambda each: isinstance(each, str), value.values())


def topics(found: Values, good: Mapping[str, Values], findings: Findings) -> TopicSelection | None:
    """The one selection of topics that a definition has, None if it hasn't one that may stand."""
    given = [name for name in ("topics", "pattern", "partitions") if found.get(name) is not None]
    if is_given(found.get(ASSIGN_SEEK)):
        return _assigned(given, good[""], findings)
    if len(given) != 1:
        path = given[1] if given else ""
        what = f"{' and '.join(given)} are given" if given else f"none of them is, nor is {ASSIGN_SEEK}"
        findings.add(path, f"exactly one of topics, pattern and partitions says what to read: {what}", "required")
        return None
    match good[""]:
        case {"topics": names}:
            return TopicNames(tuple(names))
        case {"pattern": pattern}:
            return TopicPattern(pattern, internal=not good["consumer"].get("exclude.internal.topics", True))
        case {"partitions": lists}:
            return TopicPartitions({topic: tuple(sorted(numbers)) for topic, numbers in lists.items()})
    return None


def _assigned(given: list[str], good: Values, findings: Findings) -> TopicPartitions | None:
    """The selection of `assign-seek`, which stands alone or beside topics."""
    others = [name for name in given if name != "topics"]
    if others:
        text = (
            f"{ASSIGN_SEEK} chooses partitions by itself, or those of topics: it can't stand beside "
            f"{' and '.join(others)}: keep one of them"
        )
        findings.add(ASSIGN_SEEK, text, "required", good.get(ASSIGN_SEEK))
        return None
    if ASSIGN_SEEK not in good or not set(given) <= good.keys():
        return None
    return selection(portions(good[ASSIGN_SEEK]), good.get("topics", ()), findings)


def cursor(found: Values, good: Values, findings: Findings) -> Cursor | None:
    """The cursor, with what its type needs and nothing else; None if none is given or it has no type."""
    if all(value is None for value in found.values()):
        return None
    if found.get("type") is None:
        findings.add("cursor.type", "cursor.type is missing: it has no default", "required")
    if "type" not in good:
        return None
    needed = NEEDED_BY_CURSOR.get(good["type"])
    for name in ("time", "offset"):
        path = path_of("cursor", name)
        if name == needed and found.get(name) is None:
            findings.add(path, f"{path} is missing: cursor.type {good['type']} needs it", "required")
        elif name != needed and found.get(name) is not None:
            text = f"{path} doesn't belong to cursor.type {good['type']}: remove it"
            findings.add(path, text, "refused", found[name])
    time = datetime.fromisoformat(good["time"]).astimezone(UTC) if "time" in good else None
    return Cursor(good["type"], time, good.get("offset"))


def check_cursor(cursor: Cursor | None, topics: TopicSelection | None, findings: Findings) -> None:
    """A cursor is for partitions that have none of their own."""
    if cursor is not None and isinstance(topics, TopicPartitions) and topics.all_have_cursors:
        text = (
            f"cursor says where those partitions start that have no offset in {ASSIGN_SEEK}, and all of them have one: "
            "remove cursor, or leave out the offsets in whose place it is meant"
        )
        findings.add("cursor", text, "refused")


def check_timeouts(good: Mapping[str, Values], findings: Findings) -> None:
    """The rules R1 to R5, and R7 where there is an execution timeout; none over a value that is wrong by itself."""
    values = {
        path_of("consumer", name): value for name, value in consumer_properties.effective(good["consumer"]).items()
    }
    values |= with_defaults("", good[""])
    lengths = {name: int(values[name]) for name in timeouts.TIMEOUTS}
    found = [*timeouts.breaches(lengths)]
    if timeouts.EXECUTION in good[""]:
        found += filter(None, [timeouts.execution_breach(good[""][timeouts.EXECUTION], lengths)])
    faulty = findings.faulty
    given = {path_of("consumer", name) for name in good["consumer"]} | set(good[""])
    for breach in found:
        named = dict(breach.properties)
        if not faulty & named.keys():
            path = next((name for name in named if name in findings.lines), next(iter(named)))
            message = breach.message(named.keys() - given)
            if timeouts.EXECUTION in named and timeouts.EXECUTION not in findings.lines:
                message += f"; {timeouts.EXECUTION} is that of {DEFAULTS_FILE}: give {path_of(*_TIMEOUT)} here"
            findings.add(path, message, breach.rule, named[path], breach.severity)


def check_job(good: Values, findings: Findings) -> None:
    """A job of one's own reads the manifest by itself, so nothing would call a transform."""
    if "job" in good and "transform" in good:
        text = "processing.transform is applied by Tidegate's own job, not by processing.job: keep one of them"
        findings.add("processing.transform", text, "refused", good["transform"])


def check_kind(found: Values, good: Mapping[str, Values], deserialization: Deserialization, findings: Findings) -> None:
    """What belongs to the other kind of processing is refused; requests over HTTP need to know where they go."""
    given = good["processing"]
    kind = with_defaults("processing", given)["kind"]
    if "processing.kind" in findings.faulty:
        return
    for name, known in PROCESSING.items():
        property_, words = known.only_with or ("", ())
        if name in given and property_ == "kind" and kind not in words:
            text = (
                f"processing.{name} belongs to processing.kind http, and kind is {kind}: remove it, or write kind: http"
            )
            findings.add(f"processing.{name}", text, "refused", given[name])
    if kind == "http":
        _check_http(found, good, deserialization, findings)
        _check_secret_headers(good["processing"].get("headers", {}), findings)


def _check_secret_headers(headers: Mapping[str, str], findings: Findings) -> None:
    """Definitions lie in repositories, where many may read them; a connection's headers are sent as well."""
    if named := ", ".join(name for name in headers if is_like_a_credential(name)):
        text = (
            f"processing.headers has {named}, which looks like a secret that whoever sees the definition can read: "
            "put it into the extra headers of the connection that processing.connection names"
        )
        findings.add("processing.headers", text, "like-a-secret", severity="warning")


def _check_http(
    found: Values, good: Mapping[str, Values], deserialization: Deserialization, findings: Findings
) -> None:
    given = good["processing"]
    if lacking := missing("http"):
        findings.add("processing.kind", f"processing.kind http needs {lacking}", "not-installed", "http")
    if found.get("uri") is None:
        findings.add("processing.uri", "processing.uri is missing: processing.kind http needs it", "required")
    for name in ("transform", "job", "partition-by"):
        if name in given:
            text = f"processing.{name} belongs to processing.kind spark, and kind is http: remove it"
            findings.add(f"processing.{name}", text, "refused", given[name])
    if good[""].get("landing-engine") == "spark":
        text = (
            "landing-engine spark lands over the connection to Spark, which processing.kind http has none of: remove it"
        )
        findings.add("landing-engine", text, "refused", "spark")
    if given.get("format", "parquet") != "parquet":
        text = (
            f"processing.format {given['format']} is for processing.kind spark: over HTTP each answer is noted at "
            "once, in Parquet files: remove it"
        )
        findings.add("processing.format", text, "refused", given["format"])
    elif "output" in given and scheme(given["output"]) not in (None, "file"):
        text = (
            "processing.output of kind http must be a folder of this machine, because each answer is noted there at "
            "once: write a path"
        )
        findings.add("processing.output", text, "refused", given["output"])
    for side, chosen in (("key", deserialization.key), ("value", deserialization.value)):
        path = f"consumer.{side}.deserializer"
        if chosen.name not in ("bytes", *(("string",) if side == "value" else ())) and path not in findings.faulty:
            text = (
                f"{path} {chosen.name} is for processing.kind spark: over HTTP {side}s go out as they are; remove it, "
                "or write a template as processing.body, which sees what a JSON value holds"
            )
            findings.add(path, text, "refused", chosen.name)


def defaults_of_kind(good: Mapping[str, Values]) -> dict[str, object]:
    """What the kind of processing changes of the defaults at the top level.

    A job that forgets to acknowledge a record is found by the record's age; a request that waits for its turn, or for a
    server that is down, is not forgotten.
    """
    return {"throttled.unprocessed-record-max-age.ms": 0} if good["processing"].get("kind") == "http" else {}


def endpoint(given: Values, deserialization: Deserialization) -> HttpEndpoint | None:
    """Where records go over HTTP; None with another kind of processing, or without a URI."""
    values = with_defaults("processing", given)
    if values["kind"] != "http" or values["uri"] is None:
        return None
    value = deserialization.value
    return HttpEndpoint(
        **fields("processing.endpoint", "processing", values),
        encoding=value.encoding if value.name == "string" else None,
        connection=given.get("connection"),
    )


def check_airflow(good: Values, findings: Findings) -> None:
    """A person can be asked from Airflow 3.3 on."""
    strategy = with_defaults("", good)["failure-strategy"]
    if failure_policy(strategy).asks and (found := older_airflow(_ASKS)):
        text = f"failure-strategy {strategy} needs Airflow {'.'.join(map(str, _ASKS))} or newer, and this is {found}"
        findings.add("failure-strategy", text, "not-installed", strategy)


def check_drain(good: Mapping[str, Values], findings: Findings) -> None:
    """Where a person commits, no run can follow by itself."""
    strategy = with_defaults("", good[""])["commit-strategy"]
    if good["drain"].get("max-runs") and COMMIT_POLICIES[strategy].commit_at is CommitPoint.MANUAL:
        text = (
            f"drain.max-runs: under commit-strategy {strategy} the next batch waits for a person's commit: remove drain"
        )
        findings.add("drain.max-runs", text, "refused", good["drain"]["max-runs"])


def check_schedule(good: Values, findings: Findings) -> None:
    """Records wait for a group, after its positions."""
    strategy = with_defaults("", good)["commit-strategy"]
    if isinstance(good.get("schedule"), dict) and COMMIT_POLICIES[strategy].store is PositionStore.NONE:
        text = (
            f"schedule: under commit-strategy {strategy} no position is kept, so the same records would wait for ever: "
            "write a cron expression"
        )
        findings.add("schedule", text, "refused", good["schedule"])


def check_engine(good: Values, findings: Findings) -> None:
    """Spark lands a batch by one job, which splits it among its executors."""
    if good.get("landing-engine") == "spark" and good.get("members", 1) > 1:
        text = "members are landing tasks of landing-engine python; spark lands by one job: remove members"
        findings.add("members", text, "refused", good["members"])


def deserialization(good: Mapping[str, Values], findings: Findings) -> Deserialization:
    """How keys and values are decoded, each option where its deserializer takes it."""
    faulty = findings.faulty
    _check_common_encoding(good["consumer"], faulty, findings)
    key, value = (_deserializer(side, good, faulty, findings) for side in ("key", "value"))
    given = good["deserialization"]
    registered = {key.name, value.name} & REGISTERED
    for side, chosen in (("key", key), ("value", value)):
        extras = [
            *(["registry"] if chosen.name in REGISTERED else ()),
            *(["protobuf"] if chosen.name == "protobuf" else ()),
        ]
        for lacking in filter(None, map(missing, extras)):
            path = f"consumer.{side}.deserializer"
            findings.add(path, f"{path} {chosen.name} needs {lacking}", "not-installed", chosen.name)
    if "schema-registry" in given and not registered and not _unclear(faulty):
        path = "deserialization.schema-registry"
        text = f"{path} belongs to the deserializers {', '.join(sorted(REGISTERED))}, and none is named: remove it"
        findings.add(path, text, "refused", given["schema-registry"])
    fails = good[""].get("fail-on-deserialization-failure", True)
    if not fails and key.name == value.name == "bytes" and not _unclear(faulty):
        path = "fail-on-deserialization-failure"
        text = f"{path} has no effect: keys and values stay bytes, which can't fail"
        findings.add(path, text, "no-effect", fails, "warning")
    registry = given.get("schema-registry", DESERIALIZATION["schema-registry"].default)
    return Deserialization(key, value, fails, str(registry) if registered else None)


def _unclear(faulty: frozenset[str]) -> bool:
    return bool(faulty & {"consumer.key.deserializer", "consumer.value.deserializer"})


def _check_common_encoding(consumer: Values, faulty: frozenset[str], findings: Findings) -> None:
    names = [short_name(consumer.get(f"{side}.deserializer", "bytes")) for side in ("key", "value")]
    if "deserializer.encoding" in consumer and "string" not in names and not _unclear(faulty):
        _refuse("consumer.deserializer.encoding", "string", consumer["deserializer.encoding"], findings)


def _deserializer(side: str, good: Mapping[str, Values], faulty: frozenset[str], findings: Findings) -> Deserializer:
    consumer, options = good["consumer"], good["deserialization"]
    name = short_name(consumer.get(f"{side}.deserializer", "bytes")) or "bytes"
    ours, kafkas = f"deserialization.{side}.encoding", f"consumer.{side}.deserializer.encoding"
    schema = f"deserialization.{side}.schema"
    encodings = {kafkas: consumer.get(f"{side}.deserializer.encoding"), ours: options.get(f"{side}.encoding")}
    encodings = {path: value for path, value in encodings.items() if value is not None}
    text = options.get(f"{side}.schema")
    if f"consumer.{side}.deserializer" not in faulty:
        if len(encodings) > 1:
            findings.add(ours, f"{ours} and {kafkas} are the same: keep one", "given-twice", encodings[ours])
        if name != "string":
            for path, value in encodings.items():
                _refuse(path, "string", value, findings)
        if name == "json" and text is None and schema not in faulty:
            message = f"{schema} is missing: consumer.{side}.deserializer json needs it, in Spark's DDL or JSON Schema"
            findings.add(schema, message, "required")
        if name != "json" and text is not None:
            _refuse(schema, "json", text, findings)
    encoding = next(iter(encodings.values()), None) or consumer.get("deserializer.encoding")
    return Deserializer(
        name=name,
        encoding=(charset(encoding) if encoding and name == "string" else None) or "UTF-8",
        schema=schema_text(text) if text is not None and name == "json" else None,
    )


def _refuse(path: str, deserializer: str, value: object, findings: Findings) -> None:
    text = f"{path} belongs to the deserializer {deserializer}, which isn't named: remove it"
    findings.add(path, text, "refused", value)
