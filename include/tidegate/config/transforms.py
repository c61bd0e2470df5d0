"""Whether the function that a definition names as its transform is there: by a look at its file, or by importing it.

Both look where the Spark job does, as `module_search` has it.
The look is for the DAG files, which are parsed all the time: it imports nothing. The import is for `tidegate check`:
it happens in a child process, which a module may end, block or fill with output as it likes.
"""

import ast
import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path

from tidegate.config.module_search import find_module, module_path
from tidegate.config.nearest import nearest
from tidegate.config.regular_files import read_regular

CALLS = (("records",), ("records", "batch"))
"""How a transform is called: with one argument, or with two."""
LONGEST_IMPORT = 60.0  # seconds; PySpark itself needs one or two
_CHILD = Path(__file__).with_name("importing.py")


@dataclass(frozen=True)
class TransformFiles:
    """The files of the modules that a Spark job imports, those in the folder `jobs` before others; each looked at once.

    What was written since the process began is seen, too.
    """

    jobs: Path
    _looked: dict[str, "_Look | str"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        importlib.invalidate_caches()

    def wrong(self, transform: str) -> str | None:
        """What a look finds wrong with `module:function`, None if nothing."""
        module, _, function = transform.partition(":")
        if module not in self._looked:
            self._looked[module] = _looked_at(self.jobs, module)
        look = self._looked[module]
        if isinstance(look, str):
            return look
        if function in look.names or "*" in look.names:
            return None
        near = nearest(function, look.names)
        hint = f"; did you mean {near}?" if near else ""
        return f"{look.place} has no function {function}{hint}"


@dataclass(frozen=True)
class _Look:
    """A module's file, or the folders of a package without one, and its names; `*` stands for any."""

    place: str
    names: frozenset[str]


def import_complaints(
    transforms: Iterable[str], jobs: Path, longest: float = LONGEST_IMPORT, calls: Sequence[Sequence[str]] = ()
) -> dict[str, str]:
    """What is wrong with each `module:function` that can't be imported, or called; one child process imports all.

    `calls` are the ways to call it, each by the names of its arguments: one must do, if any are given. The child finds
    modules as the Spark job does, those in the folder `jobs` before others. A module has `longest` seconds. One that
    takes longer, or ends the child, costs the others only another child.
    """
    wanted: dict[str, list[str]] = {}
    for transform in dict.fromkeys(transforms):
        module, _, function = transform.partition(":")
        wanted.setdefault(module, []).append(function)
    complaints: dict[str, str] = {}
    while wanted:
        for module, wrong in _answers(wanted, calls, jobs, longest):
            del wanted[module]
            complaints |= {f"{module}:{function}": text for function, text in wrong.items()}
        if wanted:
            module = next(iter(wanted))
            text = f"importing {module} ended its process, or took longer than {longest:.0f} s"
            complaints |= {f"{module}:{function}": text for function in wanted.pop(module)}
    return complaints


def _answers(
    wanted: Mapping[str, Sequence[str]], calls: Sequence[Sequence[str]], jobs: Path, longest: float
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """One child's answers, module by module and in their order, as far as it comes."""
    path = module_path(jobs)
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-P", str(_CHILD), str(writing), *path.first, *path.last],
        env={**os.environ, **path.variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
        start_new_session=True,
        text=True,
    ) as child:
        os.close(writing)
        try:
            with contextlib.suppress(BrokenPipeError):
                _write(child, json.dumps({"modules": wanted, "calls": calls}))
            lines = _lines(reading, longest)
            for module, line in zip(list(wanted), lines, strict=False):
                yield module, json.loads(line)
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # with whatever the modules started


def _write(child: subprocess.Popen[str], text: str) -> None:
    if child.stdin is not None:
        child.stdin.write(text)
        child.stdin.close()


def _lines(descriptor: int, longest: float) -> Iterator[bytes]:
    """The lines that arrive, until the end or until none has for so many seconds."""
    held = b""
    deadline = time.monotonic() + longest
    while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        arrived = os.read(descriptor, 65536)
        if not arrived:
            return
        *lines, held = (held + arrived).split(b"\n")
        if lines:
            yield from lines
            deadline = time.monotonic() + longest


def _looked_at(jobs: Path, module: str) -> _Look | str:
    """The names of a module, or what is wrong with its file; what has no file of source may have any name."""
    spec = find_module(module, jobs)
    if spec is None:
        where = "put it there (`airflow tidegate` also looks in Airflow's dags folder)"
        return f"there is no module {module} in {jobs}, nor among what Python imports here: {where}"
    if spec.origin is None:
        return _Look(", ".join(spec.submodule_search_locations or ()), frozenset())
    if not (spec.origin.endswith(tuple(SOURCE_SUFFIXES)) and Path(spec.origin).is_file()):
        return _Look(spec.origin, frozenset("*"))
    return _read(spec.origin)


def _read(file: str) -> _Look | str:
    try:
        return _Look(file, frozenset(_names(ast.parse(read_regular(Path(file))).body)))
    except OSError as error:
        return f"{file} can't be read: {error.strerror}"
    except SyntaxError as error:
        return f"{file}:{error.lineno or 1} isn't Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{file} isn't Python: {error}"


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What a module's names are after its import, as far as they can be seen; `*` where they can't."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield "*" if name == "__getattr__" else name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                yield from _names(ast.iter_child_nodes(node))
