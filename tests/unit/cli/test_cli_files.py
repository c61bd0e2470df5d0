"""`tidegate files` from a definition to what is printed; which files are published is tried elsewhere."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from definition_files import LEAST
from ledger_batches import landed, plan, published
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.ledger.sql import SqlLedger
from tidegate.model.receipt import Receipt
from tidegate_local.loopback import free_port

BATCHES = [f"b{number:020x}" for number in range(1, 3)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    define(tmp_path, "my lake")
    receipt = Receipt("i1", None, 0)
    for batch_id in BATCHES:
        folder = tmp_path / "my lake" / f"batch_id={batch_id}"
        folder.mkdir(parents=True)
        document = {"batch_id": batch_id, "receipt": str(receipt), "ranges": [], "files": [], "rows": 1, "rejected": 0}
        document["output_files"] = [{"path": "a.parquet", "bytes": 7, "checksum": None}]
        (folder / "_manifest.json").write_text(json.dumps(document))
        receipt = receipt.next(batch_id)
    return tmp_path


def define(home: Path, output: str) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(LEAST.replace("output: out", f"output: {output}"))


def files(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["files", "flights", *arguments])


def path_of(home: Path, batch_id: str) -> str:
    return f"{home}/my lake/batch_id={batch_id}/a.parquet"


def test_paths_come_one_a_line_and_from_a_batch_on(home: Path) -> None:
    assert files().stdout.splitlines() == [path_of(home, each) for each in BATCHES]
    assert files("--since", BATCHES[0]).stdout.splitlines() == [path_of(home, BATCHES[1])]
    assert files("--since", BATCHES[1]).stdout == ""
    unknown = files("--since", "b9")
    assert "batch b9 has published no file" in unknown.output


def test_a_batch_of_the_output_before_it_was_moved_is_told_with_that(home: Path) -> None:
    ledger = SqlLedger(f"sqlite:///{home}/data/ledger.db")
    batch = landed(ledger, replace(plan(0), output="s3://store@lake/old"))
    assert f"batch {batch.id} has published no file in" in files("--since", batch.id).output
    ledger.adopt(batch.id, published(batch))
    moved = files("--since", batch.id)
    assert moved.exit_code == 2
    assert " ".join(moved.output.split()) == (
        f"tidegate: batch {batch.id} is published in s3://store@lake/old, and the output is file://{home}/my lake now: "
        "read what came after it there first, as this command prints it with the former processing.output, unless "
        "that is a table; then all files of the new one, without --since"
    )


def test_an_output_that_lost_its_newest_batch_is_an_error_and_no_shorter_list(home: Path) -> None:
    ledger = SqlLedger(f"sqlite:///{home}/data/ledger.db")
    batch = landed(ledger, replace(plan(0), output=f"file://{home}/my lake"))
    ledger.adopt(batch.id, published(batch))
    lost = files()
    assert (lost.exit_code, lost.stdout) == (1, "")
    assert f"file://{home}/my lake doesn't have batch {batch.id}, which was published into it" in " ".join(
        lost.output.split()
    )
    assert f"`tidegate reprocess {batch.subscription} --batch {batch.id} --in-place`" in " ".join(lost.output.split())
    assert files("--format", "symlink").exit_code == 1
    assert not (home / "my lake/_symlink_format_manifest").exists()


def test_without_a_ledger_that_answers_the_files_are_listed_and_that_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_LEDGER", f"postgresql+psycopg2://127.0.0.1:{free_port()}/ledger")
    done = files()
    assert done.stdout.splitlines() == [path_of(home, each) for each in BATCHES]
    assert "whether batches are missing there isn't known: the ledger" in done.stderr


def test_json_is_asked_for_as_of_other_commands(home: Path) -> None:
    assert json.loads(files("--json").stdout) == json.loads(files("--format", "json").stdout) != []
    assert files("--json", "--format", "symlink").exit_code == 2
    (home / "include/subscriptions/flights.yaml").unlink()
    assert "no subscription 'flights'" in json.loads(files("--json").stdout)["error"]


def test_a_table_is_read_by_its_format_and_not_so(home: Path) -> None:
    file = home / "include/subscriptions/flights.yaml"
    file.write_text(file.read_text().replace("processing: {", "processing: {format: delta, "))
    told = files()
    assert (told.stdout, told.exit_code != 0) == ("", True)
    assert "flights publishes into a table (delta: my lake)" in told.output


def test_json_says_what_is_known_of_each_file(home: Path) -> None:
    first = json.loads(files("--format", "json").stdout)[0]
    assert first == {
        "batch_id": BATCHES[0],
        "number": 1,
        "uri": f"file://{path_of(home, BATCHES[0])}",
        "bytes": 7,
        "rows": None,
        "partition": {"batch_id": BATCHES[0]},
    }


def test_symlink_manifests_go_into_the_output_or_elsewhere(home: Path) -> None:
    done = files("--format", "symlink")
    assert (done.exit_code, done.stdout) == (0, "")
    manifest = f"batch_id={BATCHES[0]}/manifest"
    said = (home / "my lake/_symlink_format_manifest" / manifest).read_text()
    assert said == f"file://{path_of(home, BATCHES[0])}\n"
    assert files("--format", "symlink", "--to", "links").exit_code == 0
    assert (home / "links" / manifest).read_text() == said


@pytest.mark.parametrize("wrong", [("--to", "x"), ("--format", "symlink", "--since", "b1"), ("--format", "csv")])
@pytest.mark.usefixtures("home")
def test_what_doesnt_fit_together_is_wrong_usage(wrong: tuple[str, ...]) -> None:
    assert files(*wrong).exit_code == 2
