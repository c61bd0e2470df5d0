"""The settings in every kind of process: the command line, a DAG parse, a task and the API server, each in a folder.

A working folder of its own is what they have in a real Airflow, where nothing of it may matter.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from airflow._shared.configuration.parser import expand_env_var
from airflow.configuration import conf
from checkout import PROJECT

from tidegate.config.airflow_cfg import airflow_options

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

DEFINITION = "topics: [flights]\nconsumer: {group.id: flights-lake}\nprocessing: {output: data/lake/flights}\n"
PROBE = """\
import json, os
from pathlib import Path
from airflow.sdk import dag, task
from tidegate.config.settings import Settings

def note(process):
    found = {"folder": os.getcwd(), "settings": Settings.from_environment(os.environ).to_json()}
    (Path(os.environ["NOTES"]) / process).write_text(json.dumps(found))

note("parse")

@dag(schedule=None)
def probe():
    @task
    def look():
        note("task")
    look()

probe()
"""
API_SERVER = """\
import json, os
from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient
from tidegate_airflow.rest import app

token = init_auth_manager().generate_jwt(SimpleAuthManagerUser(username="a", role="admin"))
client = TestClient(app.rest_app(), headers={"Authorization": f"Bearer {token}"})
listed = client.get("/subscriptions").json()
print(json.dumps({"folder": os.getcwd(), "settings": app._settings().to_json(), "listed": listed}))
"""


class Installation:
    """An Airflow in which somebody uses Tidegate, with a folder for each process of it."""

    def __init__(self, folder: Path, section: str) -> None:
        self.folder = folder
        self.airflow = folder / "airflow"
        for each in ("airflow/dags", "notes", "parse and task", "command line"):
            (folder / each).mkdir(parents=True)
        database = conf.get("database", "sql_alchemy_conn")
        (self.airflow / "airflow.cfg").write_text(
            f"[core]\ndags_folder = {self.airflow}/dags\nplugins_folder = {PROJECT}/plugins\nload_examples = False\n"
            f"[database]\nsql_alchemy_conn = {database}\n[logging]\nbase_log_folder = {self.airflow}/logs\n{section}"
        )
        (self.airflow / "dags/probe.py").write_text(PROBE)
        self.environment = {**os.environ, "AIRFLOW_HOME": str(self.airflow), "NOTES": str(folder / "notes")}

    def define(self, home: Path, subscriptions: str = "include/subscriptions") -> None:
        (home / subscriptions).mkdir(parents=True)
        (home / subscriptions / "flights.yaml").write_text(DEFINITION)

    def begin(self, folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name(program)), *arguments]
        return subprocess.Popen(command, cwd=folder, env=self.environment, stdout=subprocess.PIPE, text=True)

    def everywhere(self) -> Mapping[str, Mapping[str, object]]:
        """The settings by process, once it is sure that none of them shares its working folder with all others."""
        airflow = self.begin(self.folder / "parse and task", "airflow", "dags", "test", "probe")
        api_server = self.begin(Path("/"), "python", "-c", API_SERVER)
        command_line = self.begin(self.folder / "command line", "tidegate", "settings", "--json")
        said = {each: each.communicate(timeout=500)[0] for each in (airflow, api_server, command_line)}
        assert [each.returncode for each in said] == [0, 0, 0], said
        served = json.loads(said[api_server].splitlines()[-1])
        assert [(each["name"], each["source"]) for each in served["listed"]["subscriptions"]] == [("flights", "file")]
        noted = {name: json.loads((self.folder / "notes" / name).read_text()) for name in ("parse", "task")}
        assert {served["folder"], noted["task"]["folder"]} == {"/", str(self.folder / "parse and task")}
        found = {name: each["settings"] for name, each in {**noted, "API server": served}.items()}
        return found | {"command line": json.loads(said[command_line])}


def test_all_processes_go_by_airflow_s_configuration(tmp_path: Path) -> None:
    home = tmp_path / "srv"
    section = f"[tidegate]\nhome = {home}\nsubscriptions = defined\nledger = sqlite:///50%%.db\numask = 027\n"
    installed = Installation(tmp_path, section)
    installed.define(home, "defined")
    installed.define(tmp_path / "command line")  # which is another place: Airflow's configuration counts
    found = installed.everywhere()
    assert found["task"] == found["parse"] == found["API server"] == found["command line"]
    values = {name.removeprefix("TIDEGATE_").lower(): each["value"] for name, each in found["task"].items()}
    assert values["home"] == str(home)
    assert values["subscriptions"] == str(home / "defined")
    assert values["ledger"] == f"sqlite:///{home}/50%.db"
    assert values["landing"] == f"file://{home}/data/landing"
    assert values["umask"] == "027"


@pytest.mark.nightly
def test_without_any_all_processes_go_to_the_folder_beside_airflow_s_own(tmp_path: Path) -> None:
    installed = Installation(tmp_path, "")
    home = tmp_path / "airflow/tidegate"
    installed.define(home)
    installed.define(tmp_path / "parse and task")  # where Airflow's processes don't look
    found = installed.everywhere()
    assert found["task"] == found["parse"] == found["API server"] == found["command line"]
    assert found["task"]["TIDEGATE_HOME"] == {"value": str(home), "origin": "default"}


@pytest.mark.parametrize(
    "value", ["~/x", "$NAME/y", "${NAME}", "$OUTER", "50%%", "$NOBODY", "a$", "${NAME", "~root/x", "~nobody-else"]
)
def test_a_value_is_what_airflow_itself_would_read(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in {"NAME": "n", "OUTER": "$NAME~", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, said)
    monkeypatch.setenv("AIRFLOW_CONFIG", str(tmp_path / "airflow.cfg"))
    (tmp_path / "airflow.cfg").write_text(f"[tidegate]\nlogs = {value}\n")
    ours = airflow_options(os.environ, ("logs",))["logs"].value
    assert ours == expand_env_var(value.replace("%%", "%"))
