"""Where a Spark job finds the modules that it imports: where this process does, and in `spark_jobs` before all."""

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from importlib.util import find_spec
from os.path import abspath
from pathlib import Path
from typing import Final, NamedTuple

LAST: Final = "PYTHONPATH_LAST"
"""The variable with what a job imports from where nothing else has a module; `tidegate_spark.job_process` reads it."""
_OURS = ("tidegate", "tidegate_spark")
_UNUSED = "test"  # of Python's own tests


class ModulePath(NamedTuple):
    """Folders and archives that a job imports from: before its interpreter's own, and after."""

    first: tuple[str, ...]
    last: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """The environment that tells a job so."""
        return {"PYTHONPATH": os.pathsep.join(self.first), LAST: os.pathsep.join(self.last)}


def module_path(jobs: Path | None) -> ModulePath:
    """What a job imports from: the folder `jobs` if there is one, then what this process has beside its interpreter's.

    In the order of this process: Airflow's dags folder comes after the standard library, where a `json.py` hides
    nothing. What belongs to the interpreter (the standard library, installed packages, programs) the job has itself.
    """
    own = [str(jobs)] if jobs is not None and jobs.is_dir() else []
    library = sysconfig.get_path("stdlib")
    begins = sys.path.index(library) if library in sys.path else len(sys.path)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # which a process may have set for its jobs alone
    first = dict.fromkeys((*own, *_added((*sys.path[:begins], *given))))
    return ModulePath(
        tuple(first), tuple(each for each in dict.fromkeys(_added(sys.path[begins:])) if each not in first)
    )


def _added(entries: Iterable[str]) -> Iterator[str]:
    for entry in filter(None, entries):
        path = abspath(entry)  # noqa: PTH100 (a link may be what a folder is found by)
        if Path(path).exists() and not _is_interpreters(path):
            yield path


def find_module(name: str, jobs: Path) -> ModuleSpec | None:
    """The module of this name as a job would find it; nothing is imported, its packages neither."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top, [str(jobs), *sys.path]) or _from_a_finder(top)
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    return spec


def hiding(jobs: Path) -> Iterator[tuple[Path, str]]:
    """The modules of the folder `jobs` that a job would import in place of others, each with what it hides."""
    for file in sorted((*jobs.glob("*.py"), *jobs.glob("*/__init__.py"))):
        is_package = file.parent != jobs
        name = file.parent.name if is_package else file.stem
        if name == "pyspark" or (name in _OURS and not is_package):  # a package may be a copy of ours
            yield file, name
        elif name in sys.stdlib_module_names and name != _UNUSED and not _is_within(name):
            yield file, f"Python's {name}"


def _is_within(name: str) -> bool:
    """Whether a module is part of the interpreter, which looks nowhere else for it."""
    return any(finder.find_spec(name) is not None for finder in (BuiltinImporter, FrozenImporter))


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
