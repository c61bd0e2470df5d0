"""What Airflow loads from plugins/: the plugin, and not the package beside it."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.airflow


def test_airflow_loads_the_plugin_and_no_module_of_the_package() -> None:
    program = """
import json, sys
from airflow import plugins_manager
plugins_manager.ensure_plugins_loaded()
plugins, errors = plugins_manager._get_plugins()
from pathlib import Path
stems = {path.stem for path in Path(sys.argv[1]).glob("*.py")} - {"__init__"}
print(json.dumps({
    "plugins": [plugin.name for plugin in plugins],
    "errors": errors,
    "views": [[each["destination"], each["href"]] for each in plugins_manager._get_ui_plugins()[0]],
    "is_api_imported": any(name in sys.modules for name in ("tidegate_airflow.page.app", "tidegate_airflow.rest.app")),
    "bare": sorted(stem for stem in stems if stem in sys.modules),
}))
"""
    package = os.path.join(os.path.dirname(__file__), "../../plugins/tidegate_airflow")  # noqa: PTH118, PTH120
    done = subprocess.run(
        [sys.executable, "-c", program, package], capture_output=True, text=True, check=True, env=os.environ
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert "tidegate" in said["plugins"]
    assert said["errors"] == {}
    assert said["bare"] == []
    assert ["nav", "/tidegate/page/"] in said["views"]
    assert ["dag", "/tidegate/page/subscriptions/{DAG_ID}"] in said["views"]
    assert not said["is_api_imported"], "only the API server needs that"


def test_the_page_is_mounted_before_rest_and_below_airflows_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.configuration import conf  # noqa: PLC0415 (imports Airflow)

    from tidegate_airflow.plugin import TidegatePlugin  # noqa: PLC0415 (see above)

    dags = conf.get("core", "dags_folder")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != dags])
    plugin = TidegatePlugin()
    assert [each["url_prefix"] for each in plugin.fastapi_apps] == ["/tidegate/page", "/tidegate"]
    assert dags in sys.path, "transforms may lie there"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.test/data/airflow/")
    assert [each["href"] for each in plugin.external_views] == [
        "/data/airflow/tidegate/page/",
        "/data/airflow/tidegate/page/subscriptions/{DAG_ID}",
    ]
