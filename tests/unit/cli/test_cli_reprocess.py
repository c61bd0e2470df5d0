"""`tidegate reprocess`: which batches are to be said once, and in words that it knows."""

import pytest
from typer.testing import CliRunner, Result

from tidegate.cli.app import app

BATCH, SINCE, UNTIL = ("--batch", "b1"), ("--from", "2026-01-31T08:00:00Z"), ("--to", "2026-02-01T00:00:00Z")


def text_of(done: Result) -> str:
    """What it printed, without the frames and the line ends of a terminal."""
    return " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "say which batches: --batch ID, or --from TIME and --to TIME"),
        (SINCE, "--from is without --to: a range has both"),
        (UNTIL, "--to is without --from: a range has both"),
        ((*BATCH, *SINCE), "--batch and --from are given: say one batch, or a range by --from and --to"),
        ((*BATCH, *UNTIL), "--batch and --to are given: say one batch, or"),
        ((*BATCH, *SINCE, *UNTIL), "--batch, --from and --to are given: say one batch, or"),
    ],
)
def test_batches_are_said_once(options: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, ["reprocess", "flights", *options])
    assert done.exit_code == 2
    assert said in text_of(done)


def test_the_help_says_that_a_range_has_both_ends() -> None:
    said = text_of(CliRunner().invoke(app, ["reprocess", "--help"]))
    assert "planned at or after this time, and before that of --to" in said
    assert "Goes with --from" in said


@pytest.mark.parametrize("options", [("--from", "yesterday", *UNTIL), ("--from", "yesterday"), (*SINCE, "--to", "now")])
def test_a_time_that_is_none_is_refused_with_an_example(options: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["reprocess", "flights", *options])
    assert done.exit_code == 2
    assert "is no time in ISO 8601" in text_of(done)
