"""The blocks of code in the pages, by what a reader is to do with them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

ELSEWHERE = "elsewhere"
"""The word behind the language of a block that is another system's, for comparison."""
TEXT = "text"
"""The language of what nobody can copy: drawings, and what programs print."""

OWN_TESTS = frozenset({"install.md", "reprocess.md", "runbook.md"})
"""The pages whose commands a test of their own carries out, one after the other."""

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.(?:ya?ml|py))\n")
_FUNCTION = re.compile(r"^def (\w+)\(records\b", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block of code, and its page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        """The place, as a test's name has it."""
        return f"{self.page.name}:{self.line}"

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is another system's."""
        return self.language.endswith(f" {ELSEWHERE}")

    @property
    def file(self) -> str | None:
        """The file that its first line names."""
        found = _FILE.match(self.text)
        return found[1] if found else None

    @property
    def transforms(self) -> list[str]:
        """The functions of records in it, if it is a Spark job's module."""
        return _FUNCTION.findall(self.text) if (self.file or "").startswith("spark_jobs/") else []


def blocks(language: str) -> list[Block]:
    """All blocks of one language that are to be copied."""
    return [block for block in all_blocks() if block.language == language]


def all_blocks() -> list[Block]:
    """Every block of every page."""
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1].strip(), found[2])
        for page in PAGES
        for text in [page.read_text("utf-8")]
        for found in _BLOCK.finditer(text)
    ]


def definition(block: Block) -> dict[str, Any]:
    """The definition in a block; what a part of one leaves out is filled in."""
    written = yaml.safe_load(block.text)
    name = Path(block.file or "part.yaml").stem
    whole = {"topics": [name], "consumer": {"group.id": f"{name}-lake"}, "processing": {"output": f"data/lake/{name}"}}
    if "topics" in written or "pattern" in written or "partitions" in written:
        del whole["topics"]
    return _merged(whole, written)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: _merged(base[name], over[name]) for name in base.keys() & over.keys() if isinstance(over[name], dict)}
    return {**base, **over, **both}
