"""What is staged and can't be removed or read: that is told, and harms nobody; the rest is in the contract of lakes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from ledger_batches import plan, result

from tidegate.lake.staged_files import StagedFiles
from tidegate.model.batch import Delivery
from tidegate.model.errors import UnavailableError
from tidegate.model.manifest import Manifest

STAGING = "s3://lake/staged/x"


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


class Refusing:
    """A file system that was there when it was opened, and is away."""

    def __getattr__(self, name: str) -> NoReturn:
        raise OSError("NETWORK_CONNECTION: nobody answers")


@pytest.mark.parametrize(
    "read",
    [
        lambda staged: staged.results(STAGING),
        lambda staged: staged.seal(STAGING, result("b1", Delivery(1, "t"))),
        lambda staged: staged.ack_files(STAGING),
        lambda staged: staged.has_attempt(STAGING, "a1"),
        lambda staged: staged.verified(manifest(), "a1"),
    ],
    ids=["results", "seal", "ack_files", "has_attempt", "verified"],
)
def test_a_store_that_refuses_is_unavailable_and_no_fault_of_ours(
    read: Callable[[StagedFiles], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.lake.staged_files.locate", lambda uri: (Refusing(), uri))
    with pytest.raises(
        UnavailableError, match=rf"staged in {STAGING} can't be read \(NETWORK.*; see that the place is"
    ):
        read(StagedFiles())


def manifest() -> Manifest:
    """Of a batch whose job is done, as far as it is looked at."""
    sealed = replace(plan(), seal="0" * 64)
    return Manifest(sealed, Delivery(1, "t"), transform=None, row_accounting="strict", staging=STAGING)
