"""What a terminal needs to find the local stack."""

import json
import subprocess
from pathlib import Path

from tidegate_local.stack import write_exports


def test_a_shell_that_sources_the_exports_has_the_connections(tmp_path: Path):
    script = tmp_path / "data" / "connections.sh"
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9092", "note": "it's $HOME"}}
    write_exports(script, {"kafka_default": kafka})
    said = subprocess.run(
        ["sh", "-c", f". '{script}'; printenv AIRFLOW_CONN_KAFKA_DEFAULT"], capture_output=True, text=True, check=True
    )
    assert json.loads(said.stdout) == kafka
