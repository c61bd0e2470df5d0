"""The checks behind `tidegate check`: every problem of every definition at once, and between them.

A group and an output belong to one subscription; a transform must be there to be called. Nothing is imported
and nothing is connected to.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.definition import SUFFIX, Reading, read
from tidegate.properties import nearest
from tidegate.settings import PROJECT, absolute_uri
from tidegate.subscription import Problem, Subscription

JOBS = "spark_jobs"

Draft = tuple[Reading, Subscription]


@dataclass(frozen=True)
class Report:
    """The definitions that can be used, and the problems of all files, in the order of files and lines."""

    subscriptions: tuple[Subscription, ...]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep a definition from being used."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def examine(paths: Sequence[Path], home: Path = PROJECT) -> Report:
    """Check files, and folders of them, one by one and against each other.

    `home` is the folder that outputs are relative to and that holds spark_jobs/.
    """
    readings = [read(file) for file in dict.fromkeys(file for path in paths for file in _files(path))]
    found = [problem for reading in readings for problem in reading.problems]
    found += _absent(paths)
    drafts = [(reading, reading.draft) for reading in readings if reading.draft is not None]
    for reading, draft in drafts:
        found += _transform_problems(reading, draft, home / JOBS)
    found += _shared(drafts, "", "shared-name", lambda draft: (draft.name,), "are one DAG: rename one file")
    found += _shared(
        drafts,
        "consumer.group.id",
        "shared-group",
        lambda draft: (draft.connection, draft.consumer.group_id),
        "would move each other's offsets: give each a group of its own",
    )
    found += _shared_outputs(drafts, home)
    order = {str(reading.file): number for number, reading in enumerate(readings)}
    found.sort(key=lambda problem: (order.get(problem.file, len(order)), problem.line))
    broken = {problem.file for problem in found if problem.severity == "error"}
    usable = tuple(draft for reading, draft in drafts if str(reading.file) not in broken)
    return Report(usable, tuple(found))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in (SUFFIX, ".yml"))


def _absent(paths: Sequence[Path]) -> Iterator[Problem]:
    for path in paths:
        if path.is_dir() and not _files(path):
            yield Problem(f"no definition (*{SUFFIX}) in this folder", "empty", severity="warning", file=str(path))


def _transform_problems(reading: Reading, draft: Subscription, jobs: Path) -> Iterator[Problem]:
    transform = draft.processing.transform
    if transform is None:
        return
    module, _, function = transform.partition(":")
    file = jobs / Path(*module.split(".")).with_suffix(".py")
    path = "processing.transform"
    try:
        names = _top_level_names(file)
    except FileNotFoundError:
        yield _at(reading, path, f"{path}: there is no {file}", "no-transform", transform)
    except OSError as error:
        yield _at(reading, path, f"{path}: {file} can't be read: {error.strerror}", "no-transform", transform)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        text = f"{path}: {file} isn't Python: {error}"
        yield _at(reading, path, text, "no-transform", transform)
    else:
        if function not in names:
            near = nearest(function, names)
            hint = f"; did you mean {near}?" if near else ""
            text = f"{path}: {file} has no function {function}{hint}"
            yield _at(reading, path, text, "no-transform", transform)


def _top_level_names(file: Path) -> frozenset[str]:
    """What can be called by its name after importing the module, found without importing it."""
    names: set[str] = set()
    for statement in ast.parse(file.read_bytes()).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(names)


def _shared(
    drafts: Sequence[Draft], path: str, rule: str, key: Callable[[Subscription], tuple[str, ...]], consequence: str
) -> Iterator[Problem]:
    owners: dict[tuple[str, ...], list[Draft]] = defaultdict(list)
    for reading, draft in drafts:
        owners[key(draft)].append((reading, draft))
    for (*_, value), shared in owners.items():
        for reading, _ in shared if len(shared) > 1 else ():
            others = ", ".join(str(other.file) for other, _ in shared if other is not reading)
            what = f"{path} is also that of" if path else "the name is also that of"
            yield _at(reading, path, f"{what} {others}; both {consequence}", rule, value)


def _shared_outputs(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Outputs that are one folder, or that lie within each other: readers of one would find the other."""
    places = [(reading, f"{absolute_uri(home, draft.processing.output)}/") for reading, draft in drafts]
    for reading, place in places:
        for other, there in places:
            if other is not reading and place.startswith(there):
                how = "is also that of" if place == there else "lies within that of"
                text = f"processing.output {how} {other.file}: give each subscription a folder of its own"
                yield _at(reading, "processing.output", text, "shared-output", place.removesuffix("/"))


def _at(reading: Reading, path: str, message: str, rule: str, value: str | None = None) -> Problem:
    return Problem(message, rule, path, value, file=str(reading.file), line=reading.line(path))
