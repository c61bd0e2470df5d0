"""Definitions that a test writes, read."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from definition_files import LEAST

from tidegate.config.reading import Reading, read


@pytest.fixture
def reading(tmp_path: Path) -> Callable[..., Reading]:
    """Reads a definition of this text."""

    def write_and_read(text: str, name: str = "flights.yaml") -> Reading:
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
        return read(tmp_path / name)

    return write_and_read


@pytest.fixture
def with_lines(reading: Callable[..., Reading]) -> Callable[[str], Reading]:
    """Reads the least definition with more lines, which start on line 4."""

    def write_and_read(text: str) -> Reading:
        return reading(LEAST + dedent(text))

    return write_and_read
