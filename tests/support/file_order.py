"""In which order files of tests are begun: what waits beside what computes, and the longest of both first.

A file is one worker's, and workers take files in order. In the order of their folders all that wait for brokers came in
a row, while the cores had little to do, and explorations that take a core came last, when one worker was left alone.
tests/file_order.toml has the seconds of the long files; of the others the order among each other stays.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = TESTS / "file_order.toml"
_WAITS = "integration/"
_SECONDS = 1.0  # of a file that isn't named


def in_order(files: Iterable[str], seconds: Mapping[str, float], computing: Iterable[str]) -> list[str]:
    """The files, by their paths below tests/: those of integration/ wait, unless they are among the `computing`."""
    known = [*files]
    does_compute = {file: file in {*computing} or not file.startswith(_WAITS) for file in known}
    kinds = [[file for file in known if does_compute[file] is which] for which in (True, False)]
    begins = {file: at for kind in kinds for file, at in _spread(kind, seconds).items()}
    return sorted(known, key=begins.__getitem__)


def _spread(files: Sequence[str], seconds: Mapping[str, float]) -> dict[str, float]:
    """When each begins if one worker has them all, the longest first, as a fraction of the time of all of them."""
    took = {file: seconds.get(file, _SECONDS) for file in files}
    begins, begun = {}, 0.0
    for file in sorted(files, key=took.__getitem__, reverse=True):
        begins[file] = begun / sum(took.values())
        begun += took[file]
    return begins


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in the order of their files; within a file it stays."""
    named = tomllib.loads(FILES.read_text("utf-8"))
    of_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        file = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else str(item.path)
        of_file.setdefault(file, []).append(item)
    order = in_order(of_file, named["waiting"] | named["computing"], named["computing"])
    items[:] = [item for file in order for item in of_file[file]]
