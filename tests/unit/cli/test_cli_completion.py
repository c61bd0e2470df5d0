"""What a shell completes, and `--version`."""

from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app


def completed(home: Path, words: str) -> list[str]:
    """What bash is offered behind these words."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "TIDEGATE_HOME": str(home)}
    done = CliRunner().invoke(app, [], env={"_TIDEGATE_COMPLETE": "complete_bash", **asked}, prog_name="tidegate")
    return done.stdout.split()


@pytest.mark.parametrize("command", ["status", "run", "batches", "clear", "group reset", "dead-letters list", "prune"])
def test_a_shell_completes_the_names_of_definitions(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "include/subscriptions"
    folder.mkdir(parents=True)
    for name in ("orders", "orders-eu", "flights", "_defaults"):
        (folder / f"{name}.yaml").touch()
    assert completed(tmp_path, f"tidegate {command} or") == ["orders", "orders-eu"]


def test_without_a_folder_of_definitions_nothing_is_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "tidegate status or") == []


def test_it_says_its_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"tidegate {version('tidegate')}\n")
