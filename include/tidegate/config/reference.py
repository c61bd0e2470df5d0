"""The reference page of a definition, made of the table that the loader checks it by.

`python -m tidegate.config.reference` prints it.
"""

import re
import sys
from collections import Counter
from itertools import groupby

from tidegate.config import consumer_properties, timeouts
from tidegate.config.deserializers import CHARSETS, CLASSES, NAMES
from tidegate.config.property_table import KAFKA, PROPERTIES, SECTIONS, Property
from tidegate.model.subscription import CLOSING_MS

_HEAD = """\
# The properties of a subscription

<!-- Generated from the tables that definitions are checked by: `make docs` writes it anew. -->

A subscription is one YAML 1.2 file, named like its DAG: a small letter, then `a-z0-9_-`, then `.yaml`. For help in an
editor, begin it with `# yaml-language-server: $schema=FILE`, a file that `tidegate schema` wrote.

In parentheses: values, and the default in bold. `.ms` is milliseconds, null unset. Names that only
[Hitachi](coming-from-hitachi.md), [SmallRye](coming-from-smallrye.md), [OCI Streaming](coming-from-oci-streaming.md) or
[Queue-Over-Http](coming-from-queue-over-http.md) has are errors that say what to write.
"""

_SAYS_ITS_UNIT = (".ms", ".bytes", ".records", "offset")
_SHARED = re.compile(r"((?:For|With) [^:;]+): ")
"""What the texts of several properties begin with, which then stands once, above their list."""
_RULES = (
    ("R1", "warning", "T1 > T3 > T4 > T6 > T7 > T8 > T9 > T10 > T11"),
    ("R2", "warning", "T1 > T2 > T5"),
    ("R2", "error", "T2 >= T5"),
    ("R3", "warning", "T4 > T6 + T7 + T8 + T9 + T10 + T11"),
    ("R4", "error", "T6, T7, T8 and T11 each <= T2"),
    ("R5", "error", f"3 x `{timeouts.HEARTBEAT}` <= `{timeouts.SESSION}` <= T2"),
    ("R7", "error", f"`{timeouts.EXECUTION}` > 2 x T4 + T2 + T5 + {CLOSING_MS}"),
)
_NUMBERED = {f"T{number}": name for number, name in enumerate(timeouts.TIMEOUTS[:11], 1)}


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
    title = f"## Under `{section}`\n{SECTIONS[section]}\n" if section else "## At the top level\n"
    several = PROPERTIES[section]
    heads = Counter(map(_head, several.values()))

    def shared(row: tuple[str, Property]) -> str:
        head = _head(row[1])
        return head if heads[head] > 1 else ""

    parts = [title]
    for head, rows in groupby(sorted(several.items(), key=lambda row: row[1].see == KAFKA), shared):
        parts.append(f"\n{head}:\n" if head else "\n")
        parts.extend(_entry(name, known, head) for name, known in rows)
    return "".join(parts)


def _head(known: Property) -> str:
    """What a property may share with others of its section."""
    if known.see == KAFKA:
        return f"As in {KAFKA}"
    found = _SHARED.match(known.text)
    return found[1] if found else ""


def _entry(name: str, known: Property, head: str) -> str:
    unit = "" if name.endswith(_SAYS_ITS_UNIT) else known.type.unit
    values, default = _with_default(" ".join(filter(None, (known.type.allowed().words, unit))), known.default)
    alias = f"or `{known.alias}`" if known.alias else ""
    parentheses = filter(None, (values, "required" if known.required else default, alias))
    text = "" if known.see == KAFKA else f": {_text(known, head)}"
    return f"- `{name}` ({'; '.join(parentheses)}){text}\n"


def _with_default(values: str, default: object) -> tuple[str, str]:
    """The values, with the default in bold if it is among them, else the default itself; none if it is empty."""
    if default in (None, "", (), {}):
        return values, ""
    written = [f"`{_written(each)}`" for each in (default if isinstance(default, list) else [default])]
    if not all(each in values for each in written):
        return values, f"**{', '.join(written)}**"
    for each in written:
        values = values.replace(each, f"**{each}**", 1)
    return values, ""


def _text(known: Property, head: str) -> str:
    text = known.text
    if known.see:
        text = f"{text.partition('. ')[0].removesuffix('.')}; see {known.see}."
    if head:
        text = re.sub(r"\w", lambda first: first[0].upper(), text.removeprefix(f"{head}: "), count=1)
    return text


def _written(value: object) -> str:
    """A value as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _timeouts() -> str:
    unnamed = dict(_NUMBERED)

    def with_name(number: re.Match[str]) -> str:
        name = unnamed.pop(number[0], "")
        return f"{number[0]} `{name}`" if name else number[0]

    rules = [
        f"- {rule} ({problem}): {re.sub('T[0-9]+', with_name, condition)}\n" for rule, problem, condition in _RULES
    ]
    return (
        "## The rules between timeouts\n"
        "[What each bounds](timeouts.md). For T1, -1 is infinite.\n\n"
        f"{''.join(rules)}\n"
        "With all else at its defaults, T4 may be 41651 to 299999, and T5 below 300000.\n"
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
        "Names, [what they decode](deserialization.md), and Java classes that mean the same:\n\n"
        f"{''.join(classes)}"
    )


def _refused() -> str:
    names = (*(f"{prefix}*" for prefix in consumer_properties.REFUSED_FAMILIES), *consumer_properties.REFUSED)
    return (
        "## Consumer properties that are refused\nThe error says why, or where it belongs.\n\n"
        f"{', '.join(f'`{name}`' for name in names)}.\n"
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
