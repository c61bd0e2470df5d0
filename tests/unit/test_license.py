"""Under which licence the project is, and that whoever gets it gets the text too."""

import hashlib
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from hatchling import build

ROOT = Path(__file__).parents[2]
PAGE = "plugins/tidegate_airflow/page"
# of https://www.apache.org/licenses/LICENSE-2.0.txt
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_licence_is_apaches_whole_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE


def test_a_wheel_and_a_source_distribution_name_the_licence_and_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        told = message_from_string(wheel.read(metadata).decode())
        assert (told["License-Expression"], told["License-File"]) == ("Apache-2.0", "LICENSE")
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel.namelist())
        page = {path.relative_to(ROOT / "plugins").as_posix() for path in (ROOT / PAGE).rglob("*.*")}
        assert {name for name in page if not name.endswith(".pyc")} <= set(wheel.namelist())
        assert f"{PAGE}/static/htmx-2.0.11.LICENSE.txt".removeprefix("plugins/") in page
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as source:
        assert any(name.count("/") == 1 and name.endswith("/LICENSE") for name in source.getnames())
