from pathlib import Path

from chaos.flipping import flip_one


def test_one_byte_changes(tmp_path: Path) -> None:
    empty, full, other = (tmp_path / name for name in ("empty", "full", "other"))
    empty.touch()
    for path in (full, other):
        path.write_bytes(b"abc")

    assert flip_one([empty, full, other])

    assert (empty.read_bytes(), full.read_bytes(), other.read_bytes()) == (b"", b"acc", b"abc")


def test_where_there_is_none_nothing_changes() -> None:
    assert not flip_one([])
