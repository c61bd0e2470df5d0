"""Where a Spark job finds the modules that it imports: where this process does, and in `spark_jobs` before all."""

import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from os.path import abspath
from pathlib import Path


def module_path(jobs: Path | None) -> tuple[str, ...]:
    """The PYTHONPATH of a job: the folder `jobs` if there is one, then what this process has beside its interpreter's.

    What belongs to the interpreter the job has from its own: the standard library, installed packages, programs.
    """
    own = [str(jobs)] if jobs is not None and jobs.is_dir() else []
    added = (abspath(entry) for entry in sys.path if entry)  # noqa: PTH100 (a link may be what a folder is found by)
    return tuple(dict.fromkeys((*own, *(each for each in added if Path(each).exists() and not _is_interpreters(each)))))


def find_module(name: str, jobs: Path) -> ModuleSpec | None:
    """The module of this name as a job would find it; nothing is imported, its packages neither."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top, [str(jobs), *sys.path]) or _from_a_finder(top)
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    return spec


def _from_a_finder(top: str) -> ModuleSpec | None:
    """What isn't on the path: modules within the interpreter, packages that are installed editable."""
    try:
        return find_spec(top)
    except (ImportError, ValueError):
        return None


def _is_interpreters(entry: str) -> bool:
    path = Path(entry)
    return path.resolve() == _programs() or any(path.is_relative_to(folder) for folder in _interpreters())


@cache
def _programs() -> Path:
    """The folder of installed programs, which is on the path of each of them."""
    return Path(sysconfig.get_path("scripts")).resolve()


@cache
def _interpreters() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(folder) for folder in _interpreter_folders()))


def _interpreter_folders() -> Iterator[str]:
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield sysconfig.get_path(name)
    yield from site.getsitepackages()
    yield site.getusersitepackages()
    for prefix in (sys.base_prefix, sys.base_exec_prefix):  # Python in one archive
        yield str(Path(prefix, sys.platlibdir, f"python{sys.version_info.major}{sys.version_info.minor}.zip"))
