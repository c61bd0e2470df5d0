"""docs/transforms.md: its code runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from running import python_path

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"
BLOCK = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)


def test_the_pages_transforms_pass_the_pages_tests(connect, tmp_path):
    text = PAGE.read_text("utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python")
    for name, code in blocks:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        with file.open("a", encoding="utf-8") as written:
            written.write(code)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "tests"],
        cwd=tmp_path,
        env={"PATH": "", "SPARK_REMOTE": connect.url, "PYTHONPATH": python_path(tmp_path / "spark_jobs")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
