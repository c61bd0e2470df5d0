"""The command line of dead letters, as far as no broker is needed."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app

HEAVY = ("confluent_kafka", "sqlalchemy", "pyarrow", "alembic")


@pytest.mark.parametrize("command", [["--help"], ["dead-letters", "--help"], ["dead-letters", "redrive", "--help"]])
def test_help_waits_for_no_client(command):
    program = (
        "import sys\nfrom tidegate.cli.app import app\n"
        f"try:\n    app({command!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "orders", "--reason", "("], "is no regular expression"),
        (["list", "orders", "--since", "yesterday"], "is no time in ISO 8601: write it as in 2026-01-31T08:00:00Z"),
        (["list", "orders", "--partition", "-1"], "--partition"),
        (["show", "orders", "17"], "write PARTITION:OFFSET"),
        (["redrive", "orders"], "--yes"),
        (["redrive", "orders", "--limit", "0", "--yes"], "--limit"),
    ],
)
def test_a_wrong_use_ends_with_2_and_says_what_is_wrong(arguments, said):
    done = CliRunner().invoke(app, ["dead-letters", *arguments])
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())
