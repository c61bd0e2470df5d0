"""What the documents name exists; each feature of a reference system names its test, or why it isn't here."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from documents import Block, blocks, definition

from tidegate.config.airflow_defaults import DEFAULTS_FILE
from tidegate.config.check import examine
from tidegate.trial.cases import SUFFIX

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
NAMED = re.compile(r"`(tests/[^`]*)`")
LINKED = re.compile(r"\]\((?!https?:)([^)#]+)")

SYSTEMS = DOCS / "reference-systems.md"
FEATURES = {
    "Hitachi's Kafka inbound adapter": ("H", range(1, 15)),
    "SmallRye's Kafka connector": ("Q", range(1, 11)),
    "OCI Streaming's consumer groups": ("O", range(1, 11)),
    "Queue-Over-Http": ("W", (*range(1, 9), 10)),
}
"""Each system's list by its heading: its letter, and the numbers that it has."""
COMPARED = ["hitachi", "oci-streaming", "queue-over-http", "smallrye"]


@cache
def functions(file: Path) -> frozenset[str]:
    """The names of a file's own functions."""
    body = ast.parse(file.read_text("utf-8")).body
    return frozenset(each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def is_there(named: str) -> bool:
    """Whether there is this file, folder, or `file::function`, which may have the id of one of its cases behind it."""
    path, _, name = named.partition("::")
    function = name.partition("[")[0]
    return (ROOT / path).exists() and (not name or function in functions(ROOT / path))


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without the table's head."""
    section = page.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def is_settled(row: list[str]) -> bool:
    """Whether a line names a test, or says that it isn't here, and why."""
    return any(NAMED.search(cell) or re.match("not here: .", cell) for cell in row)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = NAMED.findall(page.read_text("utf-8"))
    assert sorted({each for each in named if not is_there(each)}) == []


DEFINITIONS = [block for block in blocks("yaml") if not (block.file or "").endswith((SUFFIX, f"/{DEFAULTS_FILE}"))]


@pytest.mark.parametrize("block", DEFINITIONS, ids=str)
def test_a_definition_of_the_pages_draws_no_warning(block: Block, tmp_path: Path) -> None:
    file = tmp_path / Path(block.file or "part.yaml").name
    file.write_text(yaml.safe_dump(definition(block)), "utf-8")
    assert examine([file], tmp_path).warnings == ()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINKED.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("system", FEATURES)
def test_every_feature_of_a_reference_system_is_told(system: str) -> None:
    letter, numbers = FEATURES[system]
    told = {number for number, *_ in rows(SYSTEMS, system) if number}
    assert told == {f"{letter}{number}" for number in numbers}


@pytest.mark.parametrize("system", [*FEATURES, "Traps"])
def test_every_feature_names_a_test_or_says_why_it_isnt_here(system: str) -> None:
    table = rows(SYSTEMS, system)
    assert {len(row) for row in table} == {4}
    assert [row for row in table if not is_settled(row)] == []
    assert all(re.match("(works|not here: .|avoided)", row[2]) for row in table)


@pytest.mark.parametrize("system", COMPARED)
def test_every_line_of_a_comparison_names_a_test(system: str) -> None:
    page = DOCS / f"coming-from-{system}.md"
    lines = [line for line, *_ in rows(page, "Terms and properties")]
    tests = rows(page, "Tests of the terms and properties")
    assert lines
    assert [line for line, *_ in tests] == lines
    assert [row for row in tests if not is_settled(row)] == []


@pytest.mark.parametrize(
    "named",
    [
        "tests/unit/test_docs.py",
        "tests/unit",
        "tests/unit/test_docs.py::test_what_is_there_is_found[tests/unit]",
    ],
)
def test_what_is_there_is_found(named: str) -> None:
    assert is_there(named)


@pytest.mark.parametrize(
    "named",
    [
        "tests/unit/test_no_docs.py",
        "tests/nowhere/",
        "tests/unit/test_docs.py::test_nothing",
        "tests/unit/test_docs.py::test_what",
        "tests/unit/test_docs.py::PAGES",
    ],
)
def test_what_is_missing_is_noticed(named: str) -> None:
    assert not is_there(named)
