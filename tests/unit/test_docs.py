"""What the documents name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?")
LINKED = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    for file, name in NAMED.findall(page.read_text("utf-8")):
        assert (ROOT / file).is_file(), file
        assert f"def {name}(" in (ROOT / file).read_text("utf-8") or not name, f"{file}::{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINKED.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
