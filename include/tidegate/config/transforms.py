"""Whether the function that a definition names as its transform is there: by a look at its file, or by importing it.

The look is for the DAG files, which are parsed all the time: it imports nothing. The import is for `tidegate check`:
it happens in a child process, which a module may end, block or fill with output as it likes.
"""

import ast
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.config.nearest import nearest
from tidegate.config.regular_files import read_regular

LONGEST_IMPORT = 60.0  # seconds; PySpark itself needs one or two
_CHILD = Path(__file__).with_name("importing.py")


@dataclass(frozen=True)
class TransformFiles:
    """The files of a folder of Spark jobs, each looked at once."""

    jobs: Path
    _names: dict[str, frozenset[str] | str] = field(default_factory=dict)

    def wrong(self, transform: str) -> str | None:
        """What a look finds wrong with `module:function`, None if nothing."""
        module, _, function = transform.partition(":")
        if module not in self._names:
            self._names[module] = _looked_at(self.jobs, module)
        names = self._names[module]
        if isinstance(names, str):
            return names
        if function in names or "*" in names:
            return None
        near = nearest(function, names)
        hint = f"; did you mean {near}?" if near else ""
        return f"{_file(self.jobs, module)} has no function {function}{hint}"


def import_complaints(transforms: Iterable[str], jobs: Path, longest: float = LONGEST_IMPORT) -> dict[str, str]:
    """What is wrong with each `module:function` that can't be imported; all are imported in one child process.

    A module has `longest` seconds. One that takes longer, or ends the child, costs the others only another child.
    """
    wanted: dict[str, list[str]] = {}
    for transform in dict.fromkeys(transforms):
        module, _, function = transform.partition(":")
        wanted.setdefault(module, []).append(function)
    complaints: dict[str, str] = {}
    while wanted:
        for module, wrong in _answers(wanted, jobs, longest):
            del wanted[module]
            complaints |= {f"{module}:{function}": text for function, text in wrong.items()}
        if wanted:
            module = next(iter(wanted))
            text = f"importing {module} ended its process, or took longer than {longest:.0f} s"
            complaints |= {f"{module}:{function}": text for function in wanted.pop(module)}
    return complaints


def _answers(
    wanted: Mapping[str, Sequence[str]], jobs: Path, longest: float
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """One child's answers, module by module and in their order, as far as it comes."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-P", str(_CHILD), str(writing), str(jobs)],
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
                _write(child, json.dumps(wanted))
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


def _looked_at(jobs: Path, module: str) -> frozenset[str] | str:
    """The names of a module's file, or what is wrong with that file."""
    file = _file(jobs, module)
    try:
        return frozenset(_names(ast.parse(read_regular(file)).body))
    except FileNotFoundError:
        return f"there is no {file}"
    except OSError as error:
        return f"{file} can't be read: {error.strerror}"
    except SyntaxError as error:
        return f"{file}:{error.lineno or 1} isn't Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{file} isn't Python: {error}"


def _file(jobs: Path, module: str) -> Path:
    path = jobs.joinpath(*module.split("."))
    package = path / "__init__.py"
    return package if package.is_file() else path.with_suffix(".py")


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
