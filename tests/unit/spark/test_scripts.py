"""The programs that Spark starts: found in the installed package, which isn't imported for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.spark import scripts
from tidegate.spark.scripts import landing_job, processing_job


def test_the_programs_are_there_and_nothing_else_is_in_their_folder() -> None:
    folder = processing_job().parent
    assert landing_job().parent == folder
    assert {file.name for file in folder.glob("*.py")} == {"fork_server.py", "land_batch.py", "process_batch.py"}


def test_nothing_is_imported_to_find_them() -> None:
    program = (
        "import sys; from tidegate.spark.scripts import processing_job; processing_job(); "
        "print({'tidegate_spark', 'pyspark'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("has_a_folder", [True, False])
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_a_folder: bool
) -> None:
    monkeypatch.setattr(scripts, "PACKAGE", "tidegate_spark_that_is_missing")
    monkeypatch.syspath_prepend(str(tmp_path))
    if has_a_folder:
        (tmp_path / scripts.PACKAGE).mkdir()
    with pytest.raises(
        WrongDefinitionError, match=r"finds no package tidegate_spark_that_is_missing.*install Tidegate"
    ):
        processing_job()
