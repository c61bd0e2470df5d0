"""The table of all properties: one declaration for each field of a Subscription."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from types import NoneType
from typing import get_args, get_type_hints

import pytest

from tidegate.config.property_table import PROPERTIES, SECTIONS, field_of
from tidegate.model.subscription import Subscription

ROWS = [(section, name, known) for section, rows in PROPERTIES.items() for name, known in rows.items()]
OPPOSITE = "topics.internal"  # of exclude.internal.topics
NOT_DECLARED = {"name", "consumer.librdkafka", "consumer.java"}  # the file's, and what all consumer properties make
NOT_DECLARED |= {"processing.endpoint.encoding", "processing.endpoint.connection"}  # others' values
NOT_DECLARED |= {"dead_letter_queue.replay", "topics.ends"}  # those of a replay's subscription, which is derived


def fields(dataclass: type, path: str = "") -> Iterator[tuple[str, object]]:
    """The path of each field of a dataclass and of those in it, with its default."""
    hints = get_type_hints(dataclass)
    for field in dataclasses.fields(dataclass):
        parts = [part for part in get_args(hints[field.name]) or (hints[field.name],) if part is not NoneType]
        if all(map(dataclasses.is_dataclass, parts)):
            for part in parts:
                yield from fields(part, f"{path}{field.name}.")
        else:  # one value, which may be of several kinds
            yield f"{path}{field.name}", field.default


def test_every_field_of_a_subscription_has_exactly_one_declaration():
    declared = Counter(filter(None, (field_of(section, name) for section, name, _ in ROWS)))
    assert declared == Counter({path for path, _ in fields(Subscription)} - NOT_DECLARED)


def test_a_default_that_the_model_has_too_is_the_same():
    defaults = dict(fields(Subscription))
    compared = []
    for section, name, known in ROWS:
        path = field_of(section, name)
        default = defaults.get(path)
        if known.default is not None and default not in (None, dataclasses.MISSING):
            assert (written(known.default) == written(default)) == (path != OPPOSITE), name
            compared.append(name)
    assert "auto.commit.interval.ms" in compared


@pytest.mark.parametrize(("section", "name", "known"), ROWS, ids=[f"{section}.{name}" for section, name, _ in ROWS])
def test_a_declaration_is_whole(section, name, known):
    assert known.text.endswith(".")
    assert "  " not in known.text
    assert known.default is None or known.type.validate(written(known.default)) is None
    ends = (".ms", ".timeout", ".bytes", ".records", "members", "offset")
    assert bool(known.type.unit) == name.endswith(ends)
    if known.only_with is not None:
        other, words = known.only_with
        assert set(words) < set(PROPERTIES[section][other].type.words)


def written(default: object) -> object:
    return list(default) if isinstance(default, tuple) else default


def test_every_section_has_properties():
    assert {"", *SECTIONS} == set(PROPERTIES)
