"""In which order files of tests are begun: what waits beside what computes, and the longest of both first.

A file is one worker's, and workers take files in order. In the order of their folders all that wait for brokers came in
a row, while the cores had little to do, and explorations that take a core came last, when one worker was left alone.
tests/file_order.toml has the seconds of the long files; of the others the order among each other stays. It also names
folders whose files are one worker's, as if they were one file: they share a server that only one worker has.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parents[1]
FILES = TESTS / "file_order.toml"
NAMED: Mapping[str, Any] = tomllib.loads(FILES.read_text("utf-8"))
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


def unit_of(file: str, together: Iterable[str]) -> str:
    """What one worker gets at once: a file, or the folder among these that it is in; paths below tests/."""
    return next((folder for folder in together if file.startswith(f"{folder}/")), file)


class _Units(LoadFileScheduling):
    """Gives the files of a folder that is named to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid).removeprefix(f"{TESTS.name}/"), NAMED["together"])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Of xdist's ways to share tests out, change the one by files."""
    return _Units(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in the order of their files; within a file it stays."""
    of_unit: dict[str, list[pytest.Item]] = {}
    for item in items:
        file = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else str(item.path)
        of_unit.setdefault(unit_of(file, NAMED["together"]), []).append(item)
    order = in_order(of_unit, NAMED["waiting"] | NAMED["computing"], NAMED["computing"])
    items[:] = [item for unit in order for item in of_unit[unit]]
