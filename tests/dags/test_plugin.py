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
