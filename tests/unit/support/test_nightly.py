import json
import re

import nightly
import pytest
from checkout import PROJECT
from nightly import checks, commit, run, run_all

pytestmark = pytest.mark.long


def test_each_check_is_run_to_its_end_and_the_file_has_the_last_outcome_of_each(tmp_path):
    file = tmp_path / "nightly.json"
    wrong = ("-c", "print('seed 7: a record twice'); raise SystemExit(3)")

    assert run_all({"wrong": wrong, "right": ("-c", "print(1)")}, file) is False
    found = json.loads(file.read_text())
    assert [(name, one["status"], one["said"]) for name, one in found["checks"].items()] == [
        ("wrong", 3, ["seed 7: a record twice"]),
        ("right", 0, ["1"]),
    ]
    assert found["held"] is False
    for one in found["checks"].values():
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", one["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", one["date"])

    assert run_all({"wrong": ("-c", "")}, file) is True
    found = json.loads(file.read_text())
    assert ({name: one["status"] for name, one in found["checks"].items()}, found["held"]) == (
        {"wrong": 0, "right": 0},
        True,
    )


def test_a_folder_differs_from_its_commit_by_more_than_the_results_of_checks(tmp_path, monkeypatch):
    monkeypatch.setattr(nightly, "PROJECT", tmp_path)
    monkeypatch.setattr(nightly, "RESULT", tmp_path / "tests/nightly.json")
    (tmp_path / "tests").mkdir()
    files = [tmp_path / "tests/nightly.json", tmp_path / "README.md"]
    for file in files:
        file.write_text("as it was")
    nightly.git("init", "--quiet")
    nightly.git("add", ".")
    nightly.git("-c", "user.name=n", "-c", "user.email=n@example.org", "commit", "--quiet", "--message", "all")

    files[0].write_text("newer")
    assert re.fullmatch(r"[0-9a-f]{40}", commit())
    files[1].write_text("newer")
    assert re.fullmatch(r"[0-9a-f]{40}-dirty", commit())


def test_what_it_runs_is_there():
    commands = checks(minutes=30, seeds=10_000)
    for name in ("simulation", "chaos: parquet"):
        assert run((*commands[name][:2], "--help")).status == 0, name
    (last_cell,) = [name for name in commands if name.startswith("installed: ")][-1:]
    for name, number in {last_cell: 2, "celery": 1}.items():
        asked = run((*commands[name], "--collect-only"))
        assert (asked.status, asked.said[-1].split()[0].partition("/")[0]) == (0, str(number)), name


def test_matrices_are_of_every_folder_but_the_one_whose_tests_have_checks_of_their_own():
    folders = {f"tests/{file.relative_to(PROJECT / 'tests').parts[0]}" for file in PROJECT.glob("tests/*/**/test_*.py")}
    assert set(checks(minutes=30, seeds=10_000)["matrices"]) & folders == folders - {"tests/e2e"}
