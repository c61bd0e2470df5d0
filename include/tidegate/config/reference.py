"""The reference page of a definition, made of the table that the loader checks it by.

`python -m tidegate.config.reference` prints it.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby

from tidegate.config import properties, timeouts
from tidegate.config.deserializers import CLASSES, NAMES
from tidegate.config.foreign_properties import ELSEWHERE
from tidegate.config.property_table import ALIASES, PROPERTIES, SECTIONS, Property
from tidegate.model.subscription import CLOSING_MS

_HEAD = """\
# The properties of a subscription

<!-- Generated from the tables that definitions are checked by: `make docs` writes it anew. -->

A subscription is one YAML file, in YAML 1.2, whose name is the DAG's: a small letter, then `a-z 0-9 _ -`, then `.yaml`.
Every property keeps the name that its own system gave it. A name that isn't here is an error, which names the nearest
one; `tidegate check` finds all errors of all files at once, with file and line. Editors complete and check with the
[JSON Schema](../include/tidegate/subscription.schema.json), which `tidegate schema` prints and which a first line
`# yaml-language-server: $schema=...` names. The names of other systems have pages of their own:
[Hitachi](coming-from-hitachi.md), [SmallRye](coming-from-smallrye.md), [OCI Streaming](coming-from-oci-streaming.md),
[Queue-Over-Http](coming-from-queue-over-http.md). [Strategies](strategies.md) helps to choose when
offsets are committed, and what becomes of what fails.

A property without a default is unset unless it is given; null is the same as leaving it out.
"""

_RULES = (
    ("R1", "T1 > T3 > T4 > T6 > T7 > T8 > T9 > T10 > T11", "warning"),
    ("R2", "T2 >= T5", "error"),
    ("R2", "T1 > T2 > T5", "warning"),
    ("R3", "T4 > T6 + T7 + T8 + T9 + T10 + T11", "warning"),
    ("R4", "T6, T7, T8 and T11 each <= T2", "error"),
    ("R5", f"3 x `{timeouts.HEARTBEAT}` <= `{timeouts.SESSION}` <= T2", "error"),
    ("R7", f"`{timeouts.EXECUTION}` > 2 x T4 + T2 + T5 + {CLOSING_MS}", "error"),
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
        _elsewhere(),
    ]
    return "\n".join(parts)


def _section(section: str) -> str:
    title = f"## Under `{section}`\n{SECTIONS[section]}" if section else "## At the top level"
    rows = [_row(name, known) for name, known in PROPERTIES[section].items()]
    if not section:
        rows += [
            [f"`{name}`", f"a section, [see below](#under-{name})", "", "", "", said] for name, said in SECTIONS.items()
        ]
    return f"{title}\n\n" + _table(("property", "values", "default", "unit", "from", "what it does"), rows)


def _row(name: str, known: Property) -> list[str]:
    default = "" if known.default in (None, "") else f"`{_written(known.default)}`"
    return [f"`{name}`", known.type.allowed().words, default, known.type.unit, known.origin, known.text]


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
        "## The rules between timeouts\n"
        "A rule that only recommends is a warning; the others are errors. Each breach is reported with the names and\n"
        "the values of both sides. The numbers and the rules R1 to R4 are those of Hitachi's Kafka inbound adapter.\n\n"
        + _table(("", "timeout"), [[f"T{number}", f"`{name}`"] for number, name in enumerate(_NUMBERED, 1)])
        + "\n"
        + _table(("rule", "what it says", "if not"), _RULES)
        + f"\n-1 for `{timeouts.T1}` is longer than anything. With the defaults of all other properties the\n"
        f"rules hold if `{timeouts.T4}` is from 41651 to 299999 and `{timeouts.T5}` below 300000.\n"
    )


def _deserializers() -> str:
    def stands(item: tuple[str, str]) -> str:
        return item[1]

    by_name = {
        name: [java for java, _ in pairs] for name, pairs in groupby(sorted(CLASSES.items(), key=stands), stands)
    }
    rows = [[f"`{name}`", "<br>".join(f"`{java}`" for java in by_name.get(name, ()))] for name in NAMES]
    return "## Deserializers\n\n" + _table(("short name", "Java classes that stand for it"), rows)


def _refused() -> str:
    whys: Mapping[str, str] = {f"{name}*": why for name, why in properties.REFUSED_FAMILIES.items()} | dict(
        properties.REFUSED
    )
    rows = [[f"`{name}`", why] for name, why in whys.items()]
    return "## Consumer properties that are refused\nEach is known, and an error that says why.\n\n" + _table(
        ("property", "why: it"), rows
    )


def _elsewhere() -> str:
    rows = [[f"`{name}`", said] for name, said in sorted(ELSEWHERE.items(), key=lambda item: item[0].lower())]
    rows += [[f"`{alias}`", f"taken, and the same as `{name}`"] for alias, name in ALIASES.items()]
    return "## Names that other systems have\n\n" + _table(("name", "what stands for it here"), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(reference())
