import zlib
from pathlib import Path

import pytest

from chaos.flipping import flip_back, flip_one
from tidegate.model.batch import LandedFile
from tidegate.model.errors import CorruptFileError


def test_one_byte_changes(tmp_path: Path) -> None:
    empty, full, other = (tmp_path / name for name in ("empty", "full", "other"))
    empty.touch()
    for path in (full, other):
        path.write_bytes(b"abc")

    assert flip_one([empty, full, other])

    assert (empty.read_bytes(), full.read_bytes(), other.read_bytes()) == (b"", b"acc", b"abc")


def test_where_there_is_none_nothing_changes() -> None:
    assert not flip_one([])


def landed(path: Path, content: bytes) -> LandedFile:
    path.write_bytes(content)
    return LandedFile(f"file://{path}", records=1, bytes=len(content), checksum=f"crc32:{zlib.crc32(content):08x}")


def test_what_nobody_has_noticed_is_changed_back(tmp_path: Path) -> None:
    whole, flipped = landed(tmp_path / "whole", b"abc"), landed(tmp_path / "flipped", b"abc")
    flip_one([tmp_path / "flipped"])
    flip_back([whole, flipped])
    assert [(tmp_path / name).read_bytes() for name in ("whole", "flipped")] == [b"abc", b"abc"]


def test_what_else_has_changed_is_told(tmp_path: Path) -> None:
    file = landed(tmp_path / "file", b"abc")
    (tmp_path / "file").write_bytes(b"abd")
    with pytest.raises(CorruptFileError):
        flip_back([file])
