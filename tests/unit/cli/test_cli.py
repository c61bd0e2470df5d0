"""The command line: what it prints, and what it ends with."""

import json
import os
import pty
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from checkout import PROJECT
from definition_files import FLIGHTS, LEAST
from ledger_batches import processing
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.stored_definitions import SqlStoredDefinitions
from tidegate.model.batch import Resolution, State

WRONG = LEAST + "members: 0\npoll-timeout.ms: 300000\nmax-retrys: 1\n"
R1 = (
    "consumer.metadata.max.age.ms (300000, the default) should be longer than poll-timeout.ms (300000), so that it "
    "isn't over first: set consumer.metadata.max.age.ms to at least 300001, or lower poll-timeout.ms"
)
FIELDS = ["file", "line", "property", "value", "rule", "severity", "message"]


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG)
    return path


def check(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


@pytest.mark.long
def test_what_is_logged_to_a_pipe_is_a_line_however_long(tmp_path):
    """A terminal of 80 columns is nobody's there: whoever collects lines has them whole."""
    (tmp_path / "orders.yaml").write_text(LEAST + "poll-timeout.ms: 100\n")
    extra = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    environment = {
        **os.environ,
        "TIDEGATE_HOME": str(tmp_path),
        "TIDEGATE_SUBSCRIPTIONS": str(tmp_path),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(extra),
    }
    program = [Path(sys.executable).with_name("tidegate"), "run", "orders", "--verbose"]
    said = subprocess.run(program, env=environment, capture_output=True, text=True, check=False, timeout=500).stderr
    logged = [line for line in said.splitlines() if not line.startswith("%")]  # librdkafka's own
    assert max(map(len, logged)) > 80, said
    assert [line for line in logged if not line.startswith(("orders: ", "20"))] == [], said


@pytest.mark.parametrize("command", [[], ["clear"], ["prune"], ["reprocess"], ["replay"]], ids=str)
def test_the_paragraphs_of_help_fill_the_terminal(command):
    lines = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).output.splitlines()
    text = lines[: next(number for number, line in enumerate(lines) if line.startswith("╭"))]
    inner = [line for line, after in pairwise(text) if line.strip() and after.strip()]
    assert inner, text
    assert min(len(line.rstrip()) for line in inner) > 60, inner


def test_what_is_fine_ends_with_0():
    done = check(FLIGHTS)
    assert (done.exit_code, done.output) == (0, "1 fine, 0 errors, 0 warnings\n")


def test_a_definition_is_checked_by_its_name_too(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path))
    (tmp_path / "orders.yaml").write_text(LEAST)
    other = WRONG.replace("group.id: g", "group.id: prices").replace("output: out", "output: prices")
    (tmp_path / "prices.yaml").write_text(other)
    done = check("orders")
    assert (done.exit_code, done.output) == (0, "1 fine, 0 errors, 0 warnings\n")
    assert check("orders.yaml").output == done.output
    told = " ".join(check("order").output.split())
    assert f"there is no such file or folder, and no subscription of this name in {tmp_path}" in told


def test_a_folder_of_a_subscriptions_name_does_not_hide_its_definition(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path / "definitions"))
    monkeypatch.chdir(tmp_path)
    for folder in ("definitions", "orders"):
        (tmp_path / folder).mkdir()
    (tmp_path / "definitions" / "orders.yaml").write_text(LEAST)
    assert check("orders").output == "1 fine, 0 errors, 0 warnings\n"
    (tmp_path / "orders" / "other.yaml").write_text(WRONG)
    assert "max-retrys" in check("orders").output, "a folder with definitions is meant"


def test_files_below_another_folder_than_that_of_the_definitions_are_not_told_to_move(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path / "include" / "subscriptions"))
    (tmp_path / "include" / "subscriptions" / "below").mkdir(parents=True)
    (tmp_path / "include" / "subscriptions" / "below" / "orders.yaml").write_text(LEAST)
    done = check(tmp_path)
    told = " ".join(done.output.split())
    assert done.exit_code == 2
    assert f"definitions lie in {tmp_path}/include/subscriptions" in told
    assert "isn't read" not in told
    assert "isn't read" in " ".join(check().output.split())


def test_a_definition_that_was_stored_by_rest_is_checked_by_its_name_too(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    (tmp_path / "orders.yaml").write_text(LEAST)
    stored = SqlStoredDefinitions(f"sqlite:///{tmp_path / 'ledger.db'}")
    stored.add("prices", json.dumps(yaml.safe_load(LEAST.replace("group.id: g", "group.id: prices"))), {}, "anna")
    stored.add("wrong", WRONG, {}, "anna")
    taken = check("prices")
    assert taken.exit_code == 1
    assert re.search(r"prices.yaml:\d*:? ?error: .*output", taken.output), taken.output
    assert "max-retrys" not in taken.output
    both = check("orders", "wrong")
    assert (both.exit_code, "max-retrys isn't a property" in both.output) == (1, True), both.output
    assert "there is no such file or folder" in check("order").output


def test_a_line_for_each_problem_the_warnings_last(wrong):
    done = check(wrong)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        f"{wrong}:4: error: members must be a whole number from 1 to 1024; it is 0 [allowed]",
        f"{wrong}:6: error: max-retrys isn't a property; did you mean max-retries? [unknown]",
        f"{wrong}:5: warning: {R1} [R1]",
        "0 fine, 2 errors, 1 warning",
    ]


def test_a_warning_alone_ends_with_0(wrong):
    wrong.write_text(LEAST + "poll-timeout.ms: 300000\n")
    assert check(wrong).exit_code == 0


def test_an_executor_that_is_not_local_is_a_warning_for_each_store_of_this_machine(wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    for name in ("TIDEGATE_LEDGER", "TIDEGATE_LANDING", "AIRFLOW__CORE__EXECUTOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    wrong.write_text(LEAST + "airflow:\n  executor: CeleryExecutor\n")
    done = check(wrong)
    *warned, summary = done.output.splitlines()
    assert (done.exit_code, summary) == (0, "1 fine, 0 errors, 3 warnings")
    told = {"sqlite:///": 5, "file:///": 5, f"below TIDEGATE_HOME, {tmp_path}": 3}
    for store, line in told.items():
        (one,) = (each for each in warned if store in each)
        assert one.startswith(f"{wrong}:{line}: warning: airflow.executor is CeleryExecutor")


def test_an_executor_that_airflow_does_not_have_as_far_as_this_shell_knows_is_warned_of(wrong, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    wrong.write_text(LEAST + "airflow:\n  executor: CeleryExecutor\n")
    done = check(wrong)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "1 fine, 0 errors, 4 warnings")
    assert f"{wrong}:5: warning: airflow.executor: Airflow has no executor CeleryExecutor, only Local" in done.output


def test_json_has_every_problem_and_nothing_else(wrong):
    done = check(wrong, FLIGHTS, "--json")
    assert done.exit_code == 1
    problems = json.loads(done.output)
    assert [list(each) for each in problems] == [FIELDS] * 3
    assert problems[0] == {
        "file": str(wrong),
        "line": 4,
        "property": "members",
        "value": 0,
        "rule": "allowed",
        "severity": "error",
        "message": "members must be a whole number from 1 to 1024; it is 0",
    }
    assert json.loads(check(FLIGHTS, "--json").output) == []


def test_without_a_path_all_definitions_are_checked(wrong, monkeypatch):
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(wrong.parent))
    assert f"{wrong}:4: error" in check().output


@pytest.mark.parametrize("arguments", [["--foo"], ["--json", "--josn"]])
def test_a_wrong_use_ends_with_2(arguments):
    assert check(*arguments).exit_code == 2


def test_wrong_settings_end_with_2():
    environment = {**os.environ, "TIDEGATE_HOME": "/nowhere"}
    done = subprocess.run(
        [Path(sys.executable).with_name("tidegate"), "check"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "TIDEGATE_HOME" in done.stderr


@pytest.mark.parametrize("command", [["settings"], ["check"], ["check", "--connect"], ["run", "flights"]], ids=str)
def test_a_landing_where_nothing_can_land_ends_with_2_and_is_named(command, monkeypatch):
    monkeypatch.setenv("TIDEGATE_LANDING", "foo://x/y")
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "TIDEGATE_LANDING is foo://x/y" in done.stderr


@pytest.fixture
def nothing_set(tmp_path, monkeypatch) -> Path:
    """A working folder of somebody who has set nothing; their Airflow's is not there yet."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_settings_are_shown_with_where_they_come_from_and_without_passwords(nothing_set, monkeypatch):
    (nothing_set / "include/subscriptions").mkdir(parents=True)
    monkeypatch.setenv("TIDEGATE_LEDGER", "postgresql://me:hunter2@db/tidegate")
    lines = CliRunner().invoke(app, ["settings"]).output.splitlines()
    assert f"TIDEGATE_HOME={nothing_set}  # working folder" in lines
    assert "TIDEGATE_LEDGER=postgresql://me:***@db/tidegate  # TIDEGATE_LEDGER" in lines
    assert "TIDEGATE_UMASK=077  # default" in lines
    document = json.loads(CliRunner().invoke(app, ["settings", "--json"]).output)
    assert [f"{name}={each['value']}  # {each['origin']}" for name, each in document.items()] == lines


@pytest.mark.parametrize("command", [["check"], ["status"], ["status", "flights"], ["run", "flights"]])
def test_where_nothing_is_a_command_says_where_it_looked_and_what_to_do_and_makes_nothing(nothing_set, command):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert str(nothing_set.parent / "me/airflow/tidegate/include/subscriptions") in done.output
    assert "create it, or set TIDEGATE_HOME" in done.output
    assert not (nothing_set.parent / "me").exists()


@pytest.mark.usefixtures("nothing_set")
def test_a_wrong_setting_is_a_document_too_where_json_is_asked_for(monkeypatch):
    monkeypatch.setenv("TIDEGATE_UMASK", "9")
    done = CliRunner().invoke(app, ["dead-letters", "list", "flights", "--json"])
    assert (done.exit_code, done.stderr) == (2, f"tidegate: {json.loads(done.stdout)['error']}\n")
    assert "TIDEGATE_UMASK is 9: write three octal digits" in done.stderr


@pytest.mark.usefixtures("nothing_set")
@pytest.mark.parametrize(
    "command", [["run"], ["status"], ["group", "describe"], ["dead-letters", "list"], ["reprocess"]], ids=str
)
def test_an_error_is_a_document_too_where_json_is_asked_for(command):
    more = ["--batch", "b1"] if command == ["reprocess"] else []
    done = CliRunner().invoke(app, [*command, "flights", "--json", *more])
    assert done.exit_code == 2
    assert done.stderr == f"tidegate: {json.loads(done.stdout)['error']}\n"
    assert "no subscription 'flights'" in done.stderr
    assert CliRunner().invoke(app, [*command, "flights", *more]).stdout == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["dead-letters", "show", "flights", "17", "--json"], "write PARTITION:OFFSET"),
        (["dead-letters", "redrive", "flights", "--json"], "add --yes"),
        (["dead-letters", "list", "flights", "--reason", "(", "--json"], "is no regular expression"),
        (["status", "flights", "--limit", "0", "--json"], "--limit"),
        (["prune", "--removed", "--json"], "say which subscription"),
    ],
    ids=str,
)
def test_a_wrong_use_is_a_document_too_where_json_is_asked_for(command, said):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert said in json.loads(done.stdout)["error"]
    assert "Usage: " in done.stderr
    assert CliRunner().invoke(app, [each for each in command if each != "--json"]).stdout == ""


def test_a_check_of_nothing_at_all_ends_with_2(tmp_path, monkeypatch, wrong):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nowhere", tmp_path / "nowhere.yaml"):
        assert check(path).exit_code == 2, path
        assert check(path, "--json").exit_code == 2, path
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path / "empty"))
    assert check().exit_code == 2
    assert check(tmp_path / "nowhere.yaml", wrong).exit_code == 1
    assert check(tmp_path / "empty", FLIGHTS).exit_code == 0


@pytest.mark.parametrize("closed", [".", "data", "include/subscriptions"])
@pytest.mark.parametrize("command", [["status"], ["check"], ["plan"]], ids=str)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_what_another_user_may_not_use_is_named(command, closed, monkeypatch):
    with TemporaryDirectory() as above:
        home = Path(above, "theirs")
        (home / "include/subscriptions").mkdir(parents=True)
        (home / "include/subscriptions/flights.yaml").write_text(LEAST)
        (home / "data").mkdir()
        Path(above, "airflow").mkdir()
        for each in (Path(above), *Path(above).rglob("*")):
            each.chmod(0o755)
        (home / closed).chmod(0o700)
        monkeypatch.setenv("TIDEGATE_HOME", str(home))
        monkeypatch.setenv("AIRFLOW_HOME", f"{above}/airflow")
        CliRunner().invoke(app, ["check"])  # which imports what nobody else may read
        os.seteuid(65534)
        try:
            done = CliRunner().invoke(app, command)
        finally:
            os.seteuid(0)
        said = done.stderr.replace("\n", "")
        goes_on = command == ["check"] and closed == "data"  # definitions can be checked without a ledger
        assert (done.exit_code == 0, done.exception is None) == (goes_on, goes_on), said
        assert isinstance(done.exception, SystemExit) or goes_on
        assert f"{home}" in said
        assert "is not for this user (Permission denied): run as the user that Airflow's tasks run as" in said


def test_replay_says_from_where_a_relative_output_counts():
    said = CliRunner().invoke(app, ["replay", "--help"], env={"COLUMNS": "300"}).output
    assert "a relative path is in TIDEGATE_HOME" in " ".join(said.split())


def test_a_working_folder_that_was_deleted_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert CliRunner().invoke(app, ["settings"]).exit_code == 0


def test_a_transform_is_imported_unless_a_look_is_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs/mine.py").write_text("import pyarow\ndef rows(batch): ...\n")
    path = tmp_path / "a.yaml"
    path.write_text(LEAST.replace("output: out", "output: out, transform: 'mine:rows'"))
    done = check(path)
    assert done.exit_code == 1
    assert "mine.py:1: ModuleNotFoundError: No module named 'pyarow'" in done.output
    assert check(path, "--no-import").exit_code == 0


def test_on_a_terminal_problems_stand_below_their_files(wrong):
    ours, theirs = pty.openpty()
    program = [Path(sys.executable).with_name("tidegate"), "check", str(wrong)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(program, stdout=theirs, stderr=subprocess.DEVNULL, env=environment, cwd=PROJECT) as child:
        os.close(theirs)
        said = b""
        while arrived := _read(ours):
            said += arrived
    os.close(ours)
    assert child.returncode == 1
    text = said.decode()
    assert text.index("errors") < text.index(str(wrong)) < text.index("members must be") < text.index("warnings")
    assert "\x1b[" in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture
def stopped(tmp_path, monkeypatch) -> SqlLedger:
    """A ledger in which the subscription `flights` is stopped."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("TIDEGATE_LEDGER", url)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "kafka://127.0.0.1:1")
    ledger = SqlLedger(url)
    batch_id, _ = processing(ledger)
    ledger.resolve(batch_id, Resolution.REDELIVER, "no memory")
    ledger.resolve(batch_id, Resolution.STOP, "no memory")
    return ledger


def test_clearing_says_which_batch_goes_on_and_keeps_who_wanted_it(stopped):
    done = CliRunner().invoke(app, ["clear", "flights", "--note", "more memory"])
    batch = stopped.look("flights").open
    assert (done.exit_code, done.output) == (
        0,
        f"{batch} is cleared (redeliver): the next run delivers it again\n",
    )
    assert batch.state is State.FAILED
    ((_, clearance),) = stopped.clearances("flights", 5)
    assert (clearance.note, bool(clearance.by)) == ("more memory", True)


def test_the_open_batch_of_the_last_definition_that_was_removed_is_told(stopped, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    done = CliRunner().invoke(app, ["status", "--json"])
    (told,) = json.loads(done.stdout)
    assert (done.exit_code, told["verdict"], told["orphan"]) == (0, "STALLED", stopped.look("flights").open.id)
    assert "there is no definition flights any more" in told["reason"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_command_that_is_interrupted_says_so_without_a_traceback(monkeypatch, options):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegate.cli.plan.settings_here", interrupted)
    done = CliRunner().invoke(app, ["plan", "flights", *options])
    assert (done.exit_code, done.stderr) == (130, "tidegate: interrupted before the command had ended\n")
    assert bool(options) is (json.loads(done.stdout or "null") == {"error": "interrupted before the command had ended"})


def test_one_that_is_interrupted_while_its_modules_are_imported_does_too():
    interrupting = "raise_ = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)"
    finder = "import sys; sys.meta_path.insert(0, type('Finder', (), {'find_spec': staticmethod(raise_)}))"
    command = [sys.executable, "-c", f"{interrupting}; from tidegate.cli.entry import main; {finder}; main()"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert (done.returncode, done.stderr) == (130, "tidegate: interrupted before the command had ended\n")


def test_a_note_of_several_lines_is_shown_in_the_one_of_its_batch(stopped):
    CliRunner().invoke(app, ["clear", "flights", "--note", "more memory\n  for the driver"])
    told = CliRunner().invoke(app, ["batch", "show", stopped.look("flights").open.id])
    assert told.output.splitlines()[-1].endswith(" UTC: more memory for the driver")


@pytest.mark.usefixtures("stopped")
def test_what_is_not_stopped_is_not_cleared():
    CliRunner().invoke(app, ["clear", "flights"])
    again = CliRunner().invoke(app, ["clear", "flights"])
    assert "answered redeliver at" in again.output
    assert "nothing was cleared" in again.output
    assert again.exit_code == 1


@pytest.mark.parametrize("is_made", [False, True], ids=["no ledger", "a ledger without a run"])
@pytest.mark.parametrize(
    ("command", "refused"),
    [
        (["clear", "orders"], True),
        (["commit", "orders"], True),
        (["batches", "orders"], True),
        (["batch", "show", "b1"], True),
        (["reprocess", "orders", "--batch", "b1"], True),
        (["offsets", "accept-cluster", "orders"], True),
        (["prune", "orders"], False),
        (["plan", "orders"], False),
        (["metrics", "orders"], False),
        (["metrics", "--no-observe"], False),
        (["group", "describe", "orders"], False),
        (["group", "reset", "orders", "--to", "latest", "--dry-run"], False),
        (["dead-letters", "list", "orders"], False),
        (["dead-letters", "show", "orders", "0:1"], False),
        (["dead-letters", "redrive", "orders", "--dry-run"], False),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_ledger_that_knows_of_no_run_is_told_and_not_made(command, refused, is_made, tmp_path, monkeypatch):
    """Its silence about a batch would be taken for an answer, where TIDEGATE_LEDGER is mistyped."""
    (tmp_path / "orders.yaml").write_text(LEAST + "poll-timeout.ms: 100\n")
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "kafka://127.0.0.1:1")
    url = f"sqlite:///{tmp_path}/elsewhere/ledger.db"
    monkeypatch.setenv("TIDEGATE_LEDGER", url)
    if is_made:
        SqlLedger(url)
    done = CliRunner().invoke(app, command)
    said = f"no run has written to {url} yet" if is_made else f"there is no ledger at {url}: no run has made it"
    assert done.output.count(said) == 1, done.output
    assert "if there were runs, start none: correct TIDEGATE_LEDGER, or restore a backup by" in " ".join(
        done.output.split()
    )
    if refused:
        assert (done.exit_code, done.stdout) == (2, "")
    assert (tmp_path / "elsewhere").exists() == is_made


def test_the_command_of_an_older_installation_says_to_install_again() -> None:
    code = "from tidegate.cli.app import main; main()"  # as pip wrote it for version 0.1
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "run `make install`" in done.stderr
