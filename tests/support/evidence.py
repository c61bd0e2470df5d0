"""docs/evidence/tests.md: which tests hold what the pages say, and each feature of the reference systems.

`python tests/support/evidence.py` prints it, made of tests/claims.yaml and tests/reference_systems.yaml.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CLAIMS: Final = yaml.safe_load((ROOT / "tests" / "claims.yaml").read_text("utf-8"))
"""The tests of each page, or of each of its headings and words."""
SYSTEMS: Final = yaml.safe_load((ROOT / "tests" / "reference_systems.yaml").read_text("utf-8"))
"""Each reference system's lines and features, with their tests."""
_TITLES: Final = {
    "hitachi": "Hitachi's Kafka inbound adapter",
    "smallrye": "SmallRye's Kafka connector",
    "oci-streaming": "OCI Streaming's consumer groups",
    "queue-over-http": "Queue-Over-Http",
}
_LINK: Final = re.compile(r"\]\((?!https?:)")  # as pages of docs/ have them, which is the folder above
_OTHERS: Final = {"traps": "Traps of Kafka's clients", "properties": "Kafka's properties"}


def page() -> str:
    """The page's text."""
    text = "\n".join([*_head(), *_systems(), *_pages()]) + "\n"
    return _LINK.sub("](../", text)


def _head() -> Iterator[str]:
    yield "# The tests behind the documentation"
    yield ""
    yield "Written by `make docs` from `tests/claims.yaml` and `tests/reference_systems.yaml`, where changes belong."


def _systems() -> Iterator[str]:
    for system, title in _TITLES.items():
        found = SYSTEMS[system]
        parts = [(number, part) for number, feature in found["features"].items() for part in feature["parts"]]
        parts += [("", part) for part in found.get("its own tests", [])]
        yield from _table(title, "|  | feature | here | test |", [_row(number, part) for number, part in parts])
        yield f"\n[Line by line](coming-from-{system}.md):\n"
        yield from (f"- {line}: {_tests(tests)}" for line, tests in found["lines"].items())
    for name, title in _OTHERS.items():
        yield from _table(title, "|  | feature | here | test |", [_row("", part) for part in SYSTEMS[name]])


def _pages() -> Iterator[str]:
    for name, claims in CLAIMS.items():
        yield f"\n## {name}\n"
        yield from _claims(claims)


def _claims(claims: Any, of: str = "") -> Iterator[str]:
    if isinstance(claims, list):
        yield f"- {f'{of}: ' if of else ''}{_tests(claims)}"
        return
    for words, more in claims.items():
        yield from _claims(more, f"{of}, {words}" if of else words)


def _table(title: str, head: str, rows: list[str]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield head
    yield "|---" * (head.count("|") - 1) + "|"
    yield from rows


def _row(number: str, part: dict[str, Any]) -> str:
    return f"| {number} | {part.get('feature') or part['trap']} | {part['here']} | {_tests(part.get('tests', []))} |"


def _tests(tests: list[str] | str) -> str:
    return tests if isinstance(tests, str) else ", ".join(f"`{each}`" for each in tests)


if __name__ == "__main__":
    sys.stdout.write(page())
