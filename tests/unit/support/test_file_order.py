import os
import subprocess
import sys
from pathlib import Path

import pytest
from file_order import NAMED, TESTS, in_order, unit_of

NOTES_ITS_WORKER = """
import os
from pathlib import Path

def test_it():
    Path({file!r}).write_text(os.environ["PYTEST_XDIST_WORKER"])
"""
SECONDS = {"integration/test_a.py": 10.0, "integration/test_b.py": 30.0, "unit/test_c.py": 40.0, "unit/test_d.py": 20.0}


def test_what_waits_is_begun_beside_what_computes_and_the_longest_first():
    assert in_order(SECONDS, SECONDS, []) == [
        "integration/test_b.py",
        "unit/test_c.py",
        "unit/test_d.py",
        "integration/test_a.py",
    ]


def test_a_file_of_integration_may_compute():
    order = in_order(SECONDS, SECONDS, ["integration/test_b.py"])
    assert order[:2] == ["integration/test_a.py", "unit/test_c.py"]


def test_files_that_are_not_named_stay_in_their_order_and_come_last():
    files = ["unit/test_z.py", "unit/test_y.py", "unit/test_c.py", "unit/test_x.py"]
    assert in_order(files, SECONDS, []) == ["unit/test_c.py", "unit/test_z.py", "unit/test_y.py", "unit/test_x.py"]


def test_the_files_and_folders_that_are_named_are_there():
    named = [*NAMED["waiting"], *NAMED["computing"]]
    assert [file for file in named if not (TESTS / file).is_file() and file not in NAMED["together"]] == []
    assert [folder for folder in NAMED["together"] if not (TESTS / folder).is_dir()] == []


def test_a_folder_that_is_named_is_one_unit():
    together = ["e2e/in_airflow"]
    assert unit_of("e2e/in_airflow/test_a.py", together) == "e2e/in_airflow"
    assert unit_of("e2e/in_airflow_too/test_a.py", together) == "e2e/in_airflow_too/test_a.py"
    assert unit_of("e2e/test_a.py", together) == "e2e/test_a.py"


@pytest.mark.long
def test_one_worker_has_the_files_of_such_a_folder(tmp_path: Path):
    folder = tmp_path / TESTS.name / NAMED["together"][0]
    folder.mkdir(parents=True)
    for name in ("one", "other"):  # two files, for two workers
        (folder / f"test_{name}.py").write_text(NOTES_ITS_WORKER.format(file=str(tmp_path / name)))
    options = ["-p", "file_order", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *options, tmp_path],
        env={**os.environ, "PYTHONPATH": str(TESTS / "support")},
        cwd=tmp_path,
        check=True,
        timeout=500,
    )
    assert (tmp_path / "one").read_text() == (tmp_path / "other").read_text()
