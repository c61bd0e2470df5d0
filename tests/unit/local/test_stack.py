"""What a terminal needs to find the local stack."""

import json
import stat
import subprocess
from pathlib import Path

from tidegate_local.stack import write_exports


def test_a_shell_that_sources_the_exports_has_the_connections_and_homes(tmp_path: Path):
    script = tmp_path / "data" / "connections.sh"
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9092", "note": "it's $HOME"}}
    home = tmp_path / "it's home"
    write_exports(script, {"kafka_default": kafka}, {"TIDEGATE_HOME": home})
    printed = ["sh", "-c", f". '{script}'; printenv AIRFLOW_CONN_KAFKA_DEFAULT TIDEGATE_HOME"]
    said = subprocess.run(printed, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (json.loads(said[0]), said[1]) == (kafka, str(home))


def test_the_exports_hold_a_token_and_are_their_owners_alone(tmp_path: Path):
    script = tmp_path / "connections.sh"
    script.write_text("# of an earlier version, which everybody could read\n")
    script.chmod(0o644)
    spark = {"conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": "hush-hush"}
    write_exports(script, {"spark_default": spark}, {})
    assert "hush-hush" in script.read_text()
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
