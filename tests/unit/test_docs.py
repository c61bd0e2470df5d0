"""What the documents name exists; each feature of a reference system names its test, or why it isn't here."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from documents import Block, blocks, definition
from evidence import CLAIMS, SYSTEMS
from evidence import page as evidence

from tidegate.config.airflow_defaults import DEFAULTS_FILE
from tidegate.config.check import examine
from tidegate.trial.cases import SUFFIX

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
NAMED = re.compile(r"`(tests/[^`]*)`")
LINKED = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHORED = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")

FEATURES = {
    "hitachi": ("H", range(1, 15)),
    "smallrye": ("Q", range(1, 11)),
    "oci-streaming": ("O", range(1, 11)),
    "queue-over-http": ("W", (*range(1, 9), 10)),
}
"""The letter and the numbers of each system's features."""
MAPPED = re.compile(r"^- ((?:`[^`]*`|[^`\n])+?)(?: →|:) ", re.MULTILINE)
"""What a line of a list says the counterpart of."""
MEANT = re.compile(r"^- \*\*(.+?)\*\*", re.MULTILINE)
"""What a line of a list is about."""


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


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link to one of a page's headings has behind `#`, as GitHub makes it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def section(text: str, heading: str) -> str:
    """What stands under a heading of a page."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def flat(page: Path) -> str:
    """A page's text, whatever its lines are."""
    return " ".join(page.read_text("utf-8").split())


def told(system: str) -> list[str]:
    """What each line of a system's page is about: its own terms and properties, then its other features."""
    page = (DOCS / f"coming-from-{system}.md").read_text("utf-8")
    return [*MAPPED.findall(section(page, "Terms and properties")), *MEANT.findall(section(page, "Other features"))]


def is_settled(tests: list[str] | str | None, here: str = "") -> bool:
    """Whether there are tests, and they exist, or it says that it isn't here, and why."""
    if isinstance(tests, list):
        return bool(tests) and all(is_there(each) for each in tests)
    return bool(re.match("not here: .", tests or here))


def test_readme_and_docs_can_be_read_in_an_afternoon() -> None:
    """As `wc -w` counts words; decisions and evidence, which nobody needs to use Tidegate, don't count."""
    pages = [*DOCS.glob("*.md"), ROOT / "README.md"]
    words = sum(len(page.read_text("utf-8").split()) for page in pages)
    assert words <= 20_000, "shorten README.md or a page of docs/, or move reasons into docs/decisions/"


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_heading(page: Path) -> None:
    for target, anchor in ANCHORED.findall(page.read_text("utf-8")):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def test_the_list_of_tests_is_up_to_date() -> None:
    assert (DOCS / "evidence" / "tests.md").read_text("utf-8") == evidence(), "make docs"


@pytest.mark.parametrize("page", CLAIMS)
def test_what_a_page_says_has_tests(page: str) -> None:
    claims = CLAIMS[page]
    text = flat(DOCS / page)
    for words, tests in claims.items() if isinstance(claims, dict) else [("", claims)]:
        assert words in text
        for more, those in tests.items() if isinstance(tests, dict) else [("", tests)]:
            assert more in text
            assert [each for each in those if not is_there(each)] == []
            assert those


def test_every_line_of_the_promise_has_tests() -> None:
    promised = re.findall(r"^### (\d\. .+)$", (DOCS / "delivery-promise.md").read_text("utf-8"), re.MULTILINE)
    assert len(promised) == 7
    assert set(promised) <= CLAIMS["delivery-promise.md"].keys()


@pytest.mark.parametrize("system", FEATURES)
def test_every_feature_of_a_reference_system_is_told(system: str) -> None:
    letter, numbers = FEATURES[system]
    features = SYSTEMS[system]["features"]
    assert list(features) == [f"{letter}{number}" for number in numbers]
    lines = set(told(system))
    for feature in features.values():
        assert feature["told"]
        assert set(feature["told"]) <= lines


def parts(system: str) -> list[dict[str, Any]]:
    """Every part of a system's features, and its own tests."""
    features = SYSTEMS[system]["features"].values()
    return [*(part for feature in features for part in feature["parts"]), *SYSTEMS[system].get("its own tests", [])]


@pytest.mark.parametrize("system", FEATURES)
def test_every_feature_names_a_test_or_says_why_it_isnt_here(system: str) -> None:
    assert all(feature["parts"] for feature in SYSTEMS[system]["features"].values())
    assert [part for part in parts(system) if not is_settled(part.get("tests"), part["here"])] == []
    assert all(re.match("(works|not here: .)", part["here"]) for part in parts(system))


@pytest.mark.parametrize("of", ["traps", "properties"])
def test_every_trap_and_property_names_a_test(of: str) -> None:
    assert [part for part in SYSTEMS[of] if not is_settled(part["tests"])] == []
    assert all(part["here"].startswith("avoided") for part in SYSTEMS["traps"])


@pytest.mark.parametrize("system", FEATURES)
def test_every_line_of_a_comparison_names_a_test(system: str) -> None:
    lines = SYSTEMS[system]["lines"]
    assert len(lines) == len(told(system))
    assert set(lines) == set(told(system))
    assert [line for line, tests in lines.items() if not is_settled(tests)] == []


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
