"""Definitions that were read, and problems that several of them have together."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidegate.config.findings import shown
from tidegate.config.reading import Reading
from tidegate.model.subscription import Problem, Severity, Subscription

_NAMED = 3  # other definitions that a problem names; there may be a thousand

Draft = tuple[Reading, Subscription]


def sharing(drafts: Sequence[Draft], key: Callable[[Subscription], object]) -> Iterator[tuple[Draft, str]]:
    """Each definition that has its key in common with others, and those others' names."""
    owners: dict[object, list[Draft]] = defaultdict(list)
    for reading, draft in drafts:
        owners[key(draft)].append((reading, draft))
    for shared in owners.values():
        files = [reading.file for reading, _ in shared]
        for reading, draft in shared if len(shared) > 1 else ():
            yield (reading, draft), other_files(reading.file, files)


def other_files(file: Path, shared: Sequence[Path]) -> str:
    """The other files, the first of them by name; looks at no more than it names."""
    others = [str(other) for other in shared[: _NAMED + 1] if other is not file][:_NAMED]
    more = len(shared) - 1 - len(others)
    return ", ".join(others) + (f" and {more} more" if more else "")


def problem_at(  # noqa: PLR0917 (what a problem is made of, in the order that it has there)
    reading: Reading, path: str, message: str, rule: str, value: str, severity: Severity = "error"
) -> Problem:
    """A problem of a property, where the definition gives it."""
    return Problem(message, rule, path, shown(path, value), severity, str(reading.file), reading.line(path))
