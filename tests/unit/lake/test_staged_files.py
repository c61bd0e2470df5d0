"""Folders that are to be removed: what can't be is told, and harms nobody; the rest is in the contract of lakes."""

from pathlib import Path

import pytest

from tidegate.lake.staged_files import StagedFiles


def test_folders_that_cant_be_removed_are_told_and_keep_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a-file").touch()
    for name in ("first", "last"):
        (tmp_path / name / "attempt").mkdir(parents=True)
    stuck, gone = f"file://{tmp_path}/a-file", f"file://{tmp_path}/gone"
    folders = [f"file://{tmp_path}/first", stuck, gone, f"file://{tmp_path}/last"]
    assert list(StagedFiles().remove_folders(folders)) == [stuck]
    assert [each.name for each in tmp_path.iterdir()] == ["a-file"]
    assert f"({stuck})" in caplog.text
