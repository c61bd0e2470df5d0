"""Who types a command, also where the user id has no name."""

import getpass
import os

import pytest

from tidegate.cli.person import person_here


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 12345"), OSError("No username set")])
def test_a_user_id_without_a_name_is_told_as_such(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert person_here() == f"uid {os.getuid()}"


def test_a_user_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert person_here() == "ada"
