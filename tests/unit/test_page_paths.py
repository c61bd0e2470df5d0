"""docs/page.md has the clicks that the page is tried by in a browser."""

import re

from documents import ROOT
from page_paths import PATHS

PAGE = ROOT / "docs/page.md"
HEADING = "From the list to the cure"


def test_the_clicks_in_the_documentation_are_those_that_are_tried() -> None:
    section = PAGE.read_text("utf-8").partition(f"\n## {HEADING}\n")[2].partition("\n## ")[0]
    written = re.findall(r"^- ([^(]+) \(([^)]+)\): ", section, re.MULTILINE)
    assert written == [(path.state, " → ".join(path.clicks)) for path in PATHS]
