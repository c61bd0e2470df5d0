"""`tidegate reprocess`: which batches are to be said once, and in words that it knows."""

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app

BATCH, SINCE, UNTIL = ("--batch", "b1"), ("--from", "2026-01-31T08:00:00Z"), ("--to", "2026-02-01T00:00:00Z")


@pytest.mark.parametrize("options", [(), SINCE, UNTIL, (*BATCH, *SINCE), (*BATCH, *UNTIL), (*BATCH, *SINCE, *UNTIL)])
def test_batches_are_said_once(options: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["reprocess", "flights", *options])
    assert done.exit_code == 2
    assert "say which batches" in done.stderr


def test_a_time_that_is_none_is_refused_with_an_example() -> None:
    done = CliRunner().invoke(app, ["reprocess", "flights", "--from", "yesterday", *UNTIL])
    assert done.exit_code == 2
    assert "is no time in ISO 8601" in done.stderr
