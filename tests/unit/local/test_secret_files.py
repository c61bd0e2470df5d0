import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate_local.secret_files import drawn_once, write_secret


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_secret_is_drawn_once_and_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "made" / "token"
    drawn = iter(["first", "second"])
    assert [drawn_once(file, lambda: next(drawn)) for _ in range(2)] == ["first", "first"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_what_an_earlier_attempt_left_neither_hinders_nor_lends_its_rights(tmp_path: Path) -> None:
    file, left = tmp_path / "token", tmp_path / "token.new"
    left.write_text("half")
    left.chmod(0o666)
    write_secret(file, "whole")
    assert file.read_text() == "whole"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not left.exists()
