"""What the wheel holds: each file of the four packages, and nothing else of the checkout."""

import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from checkout import PROJECT
from wheel import build_wheel

DATA = (
    "tidegate/subscription.schema.json",
    "tidegate/cli/templates/tidegate.rules.yml",
    "tidegate/cli/templates/tidegate.dashboard.json",
    "tidegate_airflow/lineage/TidegateBatchRunFacet.json",
    "tidegate_airflow/page/static/page.css",
    "tidegate_airflow/page/static/page.js",
    "tidegate_airflow/page/templates/base.html",
    "tidegate_local/spark_jars.lock",
)


def packages() -> list[Path]:
    said = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    return [PROJECT / each for each in said["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The wheel's files, but for its metadata."""
    with ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_each_file_of_its_packages_and_no_other(held: set[str]) -> None:
    files = {
        path.relative_to(package.parent).as_posix()
        for package in packages()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == files


@pytest.mark.parametrize("name", DATA)
def test_the_wheel_holds_what_is_no_module(held: set[str], name: str) -> None:
    assert name in held


def test_who_installs_the_wheel_from_this_folder_gets_all_that_it_needs() -> None:
    said = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    assert "uv" not in said["tool"], "uv minds these settings in this folder, whatever it installs"
