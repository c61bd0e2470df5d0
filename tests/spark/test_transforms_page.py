"""docs/transforms.md: its code runs as it stands there."""

import json
import re
from pathlib import Path

import pytest
from wheel import Wheel

from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"
BLOCK = re.compile(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", re.DOTALL)
DEFINITION = (
    "topics: [orders]\nconsumer: {{group.id: {name}}}\nprocessing: {{output: {name}, transform: {transform}}}\n"
)


def test_the_pages_transforms_pass_the_pages_tests(wheel: Wheel, spark_connect: SparkConnect, tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    found = BLOCK.findall(text)
    assert len([name for name, _ in found if name.endswith(".py")]) == text.count("```python")
    home = tmp_path / "home"
    placed = DEFINITION.format(name="orders", transform="orders:placed")
    counted = DEFINITION.format(name="counts", transform="orders:counted") + "commit-strategy: checkpoint\n"
    definitions = [
        (f"include/subscriptions/{name}.yaml", each) for name, each in (("orders", placed), ("counts", counted))
    ]
    for name, code in (*found, *definitions):
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as written:
            written.write(code)

    shared = {"TIDEGATE_TEST_SPARK": json.dumps(dict(spark_connect.connection))}
    by_pytest = wheel.run(home, "pytest -q", shared)
    by_cases = wheel.run(home, "tidegate test orders", shared)

    assert (by_pytest.returncode, "2 passed" in by_pytest.stdout) == (0, True), by_pytest.stdout + by_pytest.stderr
    assert (by_cases.returncode, "1 passed" in by_cases.stdout) == (0, True), by_cases.stdout + by_cases.stderr
