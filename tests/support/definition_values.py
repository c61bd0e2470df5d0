"""Definitions drawn at random from the known properties, each value right, or odd."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tidegate.config.assign_seek import AssignSeek
from tidegate.config.deserializers import CLASSES, NAMES, Charset, DeserializerClass
from tidegate.config.http_values import BodyTemplate, HeaderLines, HttpUri
from tidegate.config.property_table import PROPERTIES
from tidegate.config.property_types import (
    Choice,
    Duration,
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

_OBJECT = {"type": "object", "properties": {"flight": {"type": "integer"}}}
_WORDS = st.text(st.characters(categories=["L", "N"], max_codepoint=0x7F), min_size=1, max_size=8)
_FUNCTION_PATTERN = PROPERTIES["processing"]["transform"].type.pattern
_KNOWN: Mapping[type, tuple[object, ...]] = {
    DeserializerClass: (*NAMES, *CLASSES),
    Charset: ("UTF-8", "latin1", "UTF-16BE"),
    JsonSchema: ("carrier STRING, flight INT", _OBJECT, json.dumps(_OBJECT)),
    RetryTopic: ("a_1", "b_10000", "c_retry_50000"),
    Duration: ("90m", "3600 s", "24h"),
    RecordLimit: (0, 100, "100", "1%", "0.5 %"),
    AssignSeek: ("flights:0:5", "0, 1:-1", " ", 3, "a:0:0,flights:1"),
    Pattern: ("flights", "flights[.].*", "a|b"),
    Moment: ("2026-01-31T00:00:00Z", "2026-01-31 01:00:00+01:00"),
    Output: ("out", "data/lake", "hdfs://name:8020/lake", "file:///lake", "s3://c@b/lake", "lake.a.b", "a/b/"),
    Schedule: ("@daily", "*/5 * * * *", "0 6 * * MON-FRI"),
    PartitionLists: ({"flights": [0, 2]}, {"a": [1], "b": [0]}),
    HttpUri: ("http://hooks.test/flights", "HTTPS://[::1]:8443?a=b"),
    HeaderLines: ({"X-Team": "harbour"}, {}),
    BodyTemplate: ('{"text": {{ value }}}', "{{ key }}"),
}

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            *("", " ", "\t", "\0", "~", "null", "yes", "0x1F", "1e9", ".nan", "<<", "*a", "&a", "!!int 1", "a: b"),
            *("2026-13-45", "9" * 5000, "s3://b", "file://host/x", "(", "a" * 3000, "\ud800", "ARRAY<" * 2000),
            *([], {}, [[]], [{}], {"": None}, {"a": {"b": {"c": [1, [2, [3]]]}}}, [None, 1, "1", 1.0, True]),
            *('{"type": "object"', '{"type": "object", "x": NaN}', {"type": "object", "x": float("nan")}),
        ]
    ),
)


def right(kind: PropertyType) -> st.SearchStrategy[Any]:
    """Values that the kind allows; for a few kinds of text only most of them."""
    match kind:
        case Whole(lowest, highest, others):
            near = st.integers(lowest, min(highest, lowest + 600_000))
            return st.sampled_from((lowest, highest, *others)) | near
        case Choice(words):
            return st.sampled_from(words)
        case Flag(only):
            return st.booleans() if only is None else st.just(only)
        case Listing(item):
            return st.lists(right(item), min_size=1, max_size=3)
        case Text() | Prose() if type(kind) not in _KNOWN:
            return st.just("a.b:c") if getattr(kind, "pattern", None) == _FUNCTION_PATTERN else _WORDS
    return st.sampled_from(_KNOWN[type(kind)])


def sections() -> st.SearchStrategy[dict[str, dict[str, object]]]:
    """Some properties of each section, most of the values right; "" is the top level."""
    return st.fixed_dictionaries({section: _section(section) for section in PROPERTIES})


def document(drawn: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """The sections as one document, a section without properties left out."""
    return {**drawn[""], **{name: values for name, values in drawn.items() if name and values}}


def _section(section: str) -> st.SearchStrategy[dict[str, object]]:
    needed: dict[str, dict[str, st.SearchStrategy[object]]] = {
        "": {"topics": st.just(["flights"])},
        "consumer": {"group.id": st.just("g")},
        "processing": {"output": st.just("out")},
    }
    names = sorted(PROPERTIES[section])
    drawn = st.lists(st.sampled_from(names), max_size=2, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: _value(section, name) for name in chosen})
    )
    least = st.fixed_dictionaries(needed.get(section, {}))
    return st.builds(lambda one, other: {**one, **other}, least, drawn)


def _value(section: str, name: str) -> st.SearchStrategy[object]:
    kind = PROPERTIES[section][name].type
    fine = right(kind)
    return st.integers(0, 15).flatmap(lambda dice: ODD if dice < 2 else fine.map(_twice) if dice == 2 else fine)


def _twice(value: object) -> object:
    """A list with each of its items twice, which hypothesis draws by chance alone; anything else as it is."""
    return [*value, *value] if isinstance(value, list) else value
