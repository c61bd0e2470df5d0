"""The rooms that have many files say what is in them: who looks for something reads one docstring."""

import importlib
from pathlib import Path

import pytest

ROOMS = [
    *("steps", "runtime", "monitoring", "operations", "checks"),
    *("ledger", "lake", "lake.delta", "lake.iceberg", "lake.object_store", "kafka", "config"),
]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_each_of_its_files_is_for(room: str) -> None:
    package = importlib.import_module(f"tidegate.{room}")
    assert package.__doc__
    assert package.__file__
    files = {file.name for file in Path(package.__file__).parent.glob("*.py")} - {"__init__.py"}
    assert [name for name in sorted(files) if name not in package.__doc__] == []
