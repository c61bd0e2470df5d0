"""The reference page of a definition, made of the table that the loader checks it by.

`python -m tidegate.config.reference` prints it.
"""

import sys
from collections.abc import Mapping
from itertools import groupby

from tidegate.config import consumer_properties, timeouts
from tidegate.config.deserializers import CHARSETS, CLASSES, NAMES
from tidegate.config.property_table import PROPERTIES, SECTIONS, Property
from tidegate.model.subscription import CLOSING_MS

_HEAD = """\
# The properties of a subscription

<!-- Generated from the tables that definitions are checked by: `make docs` writes it anew. -->

A subscription is one YAML 1.2 file, named like its DAG: a small letter, then `a-z0-9_-`, then `.yaml`.

In parentheses: values, default (or in bold), and the system that has the name, if any. `.ms` is milliseconds, null
unset. Names that [Hitachi](coming-from-hitachi.md), [SmallRye](coming-from-smallrye.md),
[OCI Streaming](coming-from-oci-streaming.md) or [Queue-Over-Http](coming-from-queue-over-http.md) have and Tidegate
hasn't are errors that say what to write.

Editors complete and check definitions that begin with `# yaml-language-server: $schema=FILE`, a file that
`tidegate schema` wrote.
"""

_SAYS_ITS_UNIT = (".ms", ".bytes", ".records", "offset")
_REMOVE = "remove it"
_RULES = (
    ("R1", "T1 > T3 > T4 > T6 > T7 > T8 > T9 > T10 > T11", "a warning"),
    ("R2", "T2 >= T5", "an error"),
    ("R2", "T1 > T2 > T5", "a warning"),
    ("R3", "T4 > T6 + T7 + T8 + T9 + T10 + T11", "a warning"),
    ("R4", "T6, T7, T8 and T11 each <= T2", "an error"),
    ("R5", f"3 x `{timeouts.HEARTBEAT}` <= `{timeouts.SESSION}` <= T2", "an error"),
    ("R7", f"`{timeouts.EXECUTION}` > 2 x T4 + T2 + T5 + {CLOSING_MS}", "an error"),
)
_NUMBERED = timeouts.TIMEOUTS[:11]


def reference() -> str:
    """The page, in Markdown."""
    parts = [
        _HEAD,
        *(_section(section) for section in PROPERTIES),
        _timeouts(),
        _deserializers(),
        _refused(),
    ]
    return "\n".join(parts)


def _section(section: str) -> str:
    title = f"## Under `{section}`\n{SECTIONS[section]}" if section else f"## At the top level\n{_sections()}"
    several = PROPERTIES[section]
    has_one_origin = len({known.origin for known in several.values()}) == 1
    entries = (
        _entry(name, known, origin="" if has_one_origin or known.origin == "Tidegate" else known.origin)
        for name, known in several.items()
    )
    return f"{title}\n\n{''.join(entries)}"


def _sections() -> str:
    *others, last = (f"[`{name}`](#under-{name})" for name in SECTIONS)
    return f"The sections: {', '.join(others)} and {last}."


def _entry(name: str, known: Property, *, origin: str) -> str:
    unit = "" if name.endswith(_SAYS_ITS_UNIT) else known.type.unit
    values = " ".join(filter(None, (known.type.allowed().words, unit)))
    default = f"`{_written(known.default)}`"
    if known.required:
        default = "required"
    elif default in values:
        values, default = values.replace(default, f"**{default}**", 1), ""
    else:
        default = "" if known.default in (None, "") else f"default {default}"
    alias = f"or `{known.alias}`" if known.alias else ""
    return f"- `{name}` ({'; '.join(filter(None, (values, default, alias, origin)))}): {known.text}\n"


def _written(value: object) -> str:
    """A value as YAML has it."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return str(list(value))
    return str(value)


def _timeouts() -> str:
    return (
        "## The rules between timeouts\n\n"
        + ", ".join(f"T{number} `{name}`" for number, name in enumerate(_NUMBERED, 1))
        + ". For T1, -1 is infinite.\n\n"
        + "".join(f"- {rule}, else {problem}: {condition}\n" for rule, condition, problem in _RULES)
        + "\nWith all else at its defaults, the rules hold for T4 from 41651 to 299999 and T5 below 300000.\n"
    )


def _deserializers() -> str:
    def stands(item: tuple[str, str]) -> str:
        return item[1]

    by_name = {
        name: [java for java, _ in pairs] for name, pairs in groupby(sorted(CLASSES.items(), key=stands), stands)
    }
    charsets = ", ".join(f"`{name}`" for name in CHARSETS.values())
    classes = (f"- `{name}`: {', '.join(f'`{java}`' for java in by_name.get(name, ()))}\n" for name in NAMES)
    return (
        "## Deserializers\n"
        f"Charsets: {charsets}.\n\n"
        "Short names, [what they decode](deserialization.md), and the Java classes that mean the same:\n\n"
        f"{''.join(classes)}"
    )


def _refused() -> str:
    reasons = {f"{name}*": why for name, why in consumer_properties.REFUSED_FAMILIES.items()} | dict(
        consumer_properties.REFUSED
    )
    return "## Consumer properties that are refused\nThe error gives the reason.\n\n" + _by_meaning(reasons)


def _by_meaning(meanings: Mapping[str, str]) -> str:
    """A list of the meanings, each with all names that have it; those that are only to be removed come last."""
    names: dict[str, list[str]] = {}
    for name, meaning in meanings.items():
        said = _REMOVE if meaning.endswith(f": {_REMOVE}") else meaning
        names.setdefault(said, []).append(f"`{name}`")
    if removed := names.pop(_REMOVE, None):
        names[_REMOVE] = removed
    return "".join(f"- {', '.join(several)}: {meaning}\n" for meaning, several in names.items())


if __name__ == "__main__":
    sys.stdout.write(reference())
