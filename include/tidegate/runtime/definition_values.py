"""The values that a definition comes to, and where each of them is from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from tidegate.config.findings import names_a_secret
from tidegate.config.http_values import is_like_a_credential
from tidegate.config.property_table import PROPERTIES, Property, field_of, path_of
from tidegate.config.reading import Reading
from tidegate.config.settings import redact
from tidegate.model.subscription import Subscription
from tidegate.runtime.definitions import STORED, is_stored

HIDDEN: Final = "(hidden)"
"""In the place of a value that may be a secret."""
_HEADERS: Final = "processing.headers"
_NONE: Final = object()


@dataclass(frozen=True, slots=True)
class DefinitionValue:
    """A property with its value as text; `origin` is `default`, or the file and line that give it."""

    name: str
    value: str
    origin: str
    text: str

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.origin == "default"

    @property
    def place(self) -> str:
        """The origin in a word: the file's name and line, or `REST`."""
        return str(STORED) if is_stored(Path(self.origin)) else self.origin.rpartition("/")[2]


def definition_values(reading: Reading) -> Iterator[DefinitionValue]:
    """Each property that has a value, in the reference page's order; none of a draft that couldn't be made.

    In the place of a wrong value, for which the draft has the default, is what the file says.
    """
    draft = reading.draft
    if draft is None:
        return
    wrong = {each.property: each.value for each in reading.all_problems if each.severity == "error"}
    for section, known in PROPERTIES.items():
        for name, declared in known.items():
            path = path_of(section, name)
            given = path in reading.lines or path in reading.defaults.paths
            value = wrong[path] if given and path in wrong else _value(draft, section, name, declared)
            if value is not None and value != "":
                origin = ":".join(map(str, reading.place(path))) if given else "default"
                yield DefinitionValue(path, _shown(path, value), origin, declared.text)


def _value(draft: Subscription, section: str, name: str, declared: Property) -> Any:
    value: Any = draft
    for part in filter(None, field_of(section, name).split(".")):
        value = getattr(value, part, None)
    if value is not draft:
        return value
    given: Mapping[str, Any] = draft.consumer.librdkafka if section == "consumer" else {}
    counterpart = getattr(declared, "librdkafka", None) or name
    return given.get(counterpart, declared.default)


def _shown(path: str, value: Any) -> str:
    if path == _HEADERS and isinstance(value, Mapping):
        value = {name: HIDDEN if is_like_a_credential(str(name)) else text for name, text in value.items()}
    return HIDDEN if names_a_secret(path) else redact(_text(value))


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple() | list() | frozenset():
            return ", ".join(map(_text, value))
        case dict():
            return ", ".join(
                f"{name}: {HIDDEN if names_a_secret(str(name)) else _text(v)}" for name, v in value.items()
            )
        case _ if is_dataclass(value) and type(value).__str__ is object.__str__:
            parts = [getattr(value, each.name) for each in fields(value)]
            return "; ".join(_text(part) for part in parts if part not in (None, "", (), {}))
        case _:
            return str(value)
