"""The checks behind `tidegate check`: every problem of every definition at once, and between them.

A group, an output and a retry topic belong to one subscription; a transform and a job must be there to be called.
Nothing is connected to, and nothing is imported unless it is asked for.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import abspath, realpath
from pathlib import Path

from tidegate.config.airflow_defaults import DEFAULTS_FILE, AirflowDefaults, read_defaults
from tidegate.config.findings import shown
from tidegate.config.reading import SUFFIX, Reading, read
from tidegate.config.settings import SPARK_JOBS, absolute_uri
from tidegate.config.strategies import DEAD_LETTERS, FAILURE, RETRIES
from tidegate.config.transforms import LONGEST_IMPORT, TransformFiles, import_complaints
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import Problem, Severity, Subscription

PLUGINS = "plugins"
CALLBACKS = ("airflow.on_failure_callback", "airflow.on_success_callback")
_HELD = "held-group"
_NAMED = 3  # other definitions that a problem names; there may be a thousand

Draft = tuple[Reading, Subscription]
Holders = Callable[[str], Collection[str]]
"""The subscriptions that have read with a group, by its id; asked only where several definitions have one group."""


def nobody(_group: str) -> Collection[str]:
    """The holders of a group where nobody knows any."""
    return ()


@dataclass(frozen=True)
class Report:
    """The definitions that can be used, and the problems of all files, in the order of files and lines."""

    usable: tuple[Draft, ...]
    problems: tuple[Problem, ...]

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """What can be used."""
        return tuple(draft for _, draft in self.usable)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep a definition from being used."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that don't."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def examine(
    paths: Sequence[Path],
    home: Path,
    *,
    imports: bool = False,
    longest_import: float = LONGEST_IMPORT,
    holders: Holders = nobody,
    more: Sequence[Reading] = (),
    absent: str = "there is no such file or folder",
) -> Report:
    """Check files, and folders of them, one by one and against each other and their neighbours in the same folder.

    `home` is the folder that outputs and jobs are relative to. Transforms are looked for in its spark_jobs/, then in
    all that this process imports from; callbacks in its plugins/ and there. With `imports` both are imported, in a
    child process that gives each module `longest_import` seconds. Of definitions with one group the one that has read
    with it, as `holders` tell, stays usable. `more` are definitions that aren't files; `absent` is what to say of a
    path that isn't there.
    """
    asked = _distinct(file for path in paths for file in _files(path))
    folders = {file.parent: None for file in asked.values()}
    asked_folders = (path if path.is_dir() else path.parent for path in paths if path.exists())
    defaults = {folder: read_defaults(folder) for folder in dict.fromkeys([*asked_folders, *folders])}
    beside = _distinct(file for folder in folders if folder.is_dir() for file in _files(folder))
    readings = [*(_read(file, defaults) for file in asked.values()), *more]
    asked_defaults = _different([*defaults.values(), *(reading.defaults for reading in more)])
    drafts = _drafts(readings)
    everyone = [*drafts, *_drafts(_read(file, defaults) for place, file in beside.items() if place not in asked)]
    found = [problem for reading in readings for problem in reading.problems]
    found += [problem for each in asked_defaults for problem in each.problems]
    found += _job_problems(drafts, home)
    found += _transform_problems(drafts, home / SPARK_JOBS, longest_import if imports else None)
    if imports:
        found += _callback_problems(drafts, asked_defaults, home / PLUGINS, longest_import)
    found += [*_shared_names(everyone), *_shared_groups(everyone, holders)]
    newcomers = _newcomers(everyone, holders)
    found += [each for each in _shared_places(everyone, home) if each.file in newcomers or not newcomers]
    if newcomers:  # what they share with an established definition is theirs to change
        established = [each for each in everyone if str(each[0].file) not in newcomers]
        found += _shared_places(established, home)
    files = [*(each.file for each in asked_defaults), *(reading.file for reading in readings)]
    order = {str(file): number for number, file in enumerate(files)}
    known = [problem for problem in found if problem.file in order]
    known.sort(key=lambda problem: (order[problem.file], problem.line))
    broken = {problem.file for problem in known if problem.severity == "error"}
    usable = tuple(
        (reading, draft) for reading, draft in drafts if not broken & {str(reading.file), str(reading.defaults.file)}
    )
    return Report(usable, (*known, *_absent(paths, absent)))


def _files(path: Path) -> list[Path]:
    """The definitions that a path means; the file with their defaults is none."""
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.suffix in (SUFFIX, ".yml"))
    else:
        found = [path] if path.exists() else []
    return [each for each in found if each.name != DEFAULTS_FILE]


def _read(file: Path, defaults: Mapping[Path, AirflowDefaults]) -> Reading:
    return read(file, defaults=defaults[file.parent])


def _different(several: Iterable[AirflowDefaults]) -> list[AirflowDefaults]:
    """Each file of defaults once, however often it was read."""
    return list({abspath(each.file): each for each in several}.values())  # noqa: PTH100 (as of definitions)


def _distinct(files: Iterable[Path]) -> dict[str, Path]:
    """Each file once, however it is spelt, by its absolute path."""
    found: dict[str, Path] = {}
    for file in files:
        found.setdefault(abspath(file), file)  # noqa: PTH100 (two links to one file are two definitions)
    return found


def _drafts(readings: Iterable[Reading]) -> list[Draft]:
    return [(reading, reading.draft) for reading in readings if reading.draft is not None]


def _absent(paths: Sequence[Path], absent: str) -> Iterator[Problem]:
    for path in paths:
        if not path.exists():
            yield Problem(absent, "unreadable", file=str(path))
        elif path.name != DEFAULTS_FILE and not _files(path):
            yield Problem(f"no definition (*{SUFFIX}) in this folder", "empty", severity="warning", file=str(path))


def _job_problems(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Jobs that aren't there, as far as they lie on this machine."""
    path = "processing.job"
    for reading, draft in drafts:
        job = draft.processing.job
        if job is None:
            continue
        try:
            place = absolute_uri(home, job)
        except WrongDefinitionError as error:
            yield _at(reading, path, f"{path}: {error}", "no-job", job)
            continue
        if place.startswith("file://") and not Path(place.removeprefix("file://")).is_file():
            yield _at(reading, path, f"{path}: there is no file {place.removeprefix('file://')}", "no-job", job)


def _transform_problems(drafts: Sequence[Draft], jobs: Path, longest: float | None) -> Iterator[Problem]:
    """Transforms that aren't there, and with `longest` those whose import fails."""
    named = [(reading, draft.processing.transform) for reading, draft in drafts if draft.processing.transform]
    files = TransformFiles(jobs)
    complaints = {name: wrong for name in {name for _, name in named} if (wrong := files.wrong(name))}
    if longest is not None:
        rest = sorted({name for _, name in named} - complaints.keys())
        complaints |= import_complaints(rest, jobs, longest)
    path = "processing.transform"
    for reading, name in named:
        if name in complaints:
            yield _at(reading, path, f"{path}: {complaints[name]}", "no-transform", name)


def _callback_problems(
    drafts: Sequence[Draft], defaults: Sequence[AirflowDefaults], plugins: Path, longest: float
) -> Iterator[Problem]:
    """Callbacks whose import fails, each where it is named."""
    named = [
        (*reading.place(path), path, function) for reading, draft in drafts for path, function in _callbacks(draft)
    ]
    named += [
        (str(each.file), each.lines[path], path, each.values[path.removeprefix("airflow.")])
        for each in defaults
        for path in each.paths & frozenset(CALLBACKS)
    ]
    named = list(dict.fromkeys(named))
    complaints = import_complaints(sorted({function for *_, function in named}), plugins, longest)
    for file, line, path, function in named:
        if function in complaints:
            text = f"{path}: {complaints[function]}"
            yield Problem(text, "no-callback", path, shown(path, function), file=file, line=line)


def _callbacks(draft: Subscription) -> Iterator[tuple[str, str]]:
    """The callbacks of a definition, with the properties that name them."""
    functions = (draft.airflow.on_failure_callback, draft.airflow.on_success_callback)
    yield from ((path, function) for path, function in zip(CALLBACKS, functions, strict=True) if function is not None)


def _shared_names(drafts: Sequence[Draft]) -> Iterator[Problem]:
    for (reading, draft), others in _sharing(drafts, lambda draft: draft.name):
        text = f"the name is also that of {others}; both are one DAG: rename one file"
        yield _at(reading, "", text, "shared-name", draft.name)


def _shared_groups(drafts: Sequence[Draft], holders: Holders) -> Iterator[Problem]:
    """One group in two definitions, on whatever topics: its fence and its receipts are one subscription's."""
    path = "consumer.group.id"
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, draft in drafts:
        names[draft.connection, draft.consumer.group_id].add(draft.name)
    for (reading, draft), others in _sharing(drafts, lambda draft: (draft.connection, draft.consumer.group_id)):
        group = draft.consumer.group_id
        held = names[draft.connection, group] & set(holders(group))
        if held == {draft.name}:
            continue
        if len(held) == 1:
            text = f"{path}: {group} is the group that {held.pop()} reads with: give {draft.name} a group of its own"
            yield _at(reading, path, text, _HELD, group)
        else:
            text = (
                f"{path} is also that of {others}; both would fence each other's commits and move each other's "
                "offsets, on different topics too: give each a group of its own"
            )
            yield _at(reading, path, text, "shared-group", group)


def _newcomers(drafts: Sequence[Draft], holders: Holders) -> frozenset[str]:
    """The files of definitions whose group is another one's, which reads with it."""
    found = {each.file for each in _shared_groups(drafts, holders) if each.rule == _HELD}
    return frozenset(found)


def _shared_places(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    yield from _shared_outputs(drafts, home)
    yield from _shared_topics(drafts)


def _sharing(drafts: Sequence[Draft], key: Callable[[Subscription], object]) -> Iterator[tuple[Draft, str]]:
    """Each definition that has its key in common with others, and those others' names."""
    owners: dict[object, list[Draft]] = defaultdict(list)
    for reading, draft in drafts:
        owners[key(draft)].append((reading, draft))
    for shared in owners.values():
        files = [reading.file for reading, _ in shared]
        for reading, draft in shared if len(shared) > 1 else ():
            yield (reading, draft), _others(reading.file, files)


def _others(file: Path, shared: Sequence[Path]) -> str:
    """The other files, the first of them by name; looks at no more than it names."""
    others = [str(other) for other in shared[: _NAMED + 1] if other is not file][:_NAMED]
    more = len(shared) - 1 - len(others)
    return ", ".join(others) + (f" and {more} more" if more else "")


def _shared_outputs(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Outputs that are one folder, or that lie within each other: readers of one would find the other."""
    path = "processing.output"
    places = [(reading, _real(absolute_uri(home, draft.processing.output))) for reading, draft in drafts]
    owners: dict[str, list[Path]] = defaultdict(list)
    for reading, place in places:
        owners[place].append(reading.file)
    for reading, place in places:
        clashes = [f"lies within that of {owners[above][0]}" for above in _above(place) if above in owners]
        if len(owners[place]) > 1:
            clashes.append(f"is also that of {_others(reading.file, owners[place])}")
        for clash in clashes:
            text = f"{path} {clash}: give each subscription a folder of its own"
            yield _at(reading, path, text, "shared-output", place)


def _real(place: str) -> str:
    """The folder that a URI means once links are followed, as far as it lies on this machine."""
    path = place.removeprefix("file://")
    return place.removesuffix("/") if path == place else f"file://{realpath(path)}"


def _shared_topics(drafts: Sequence[Draft]) -> Iterator[Problem]:
    """Topics that several subscriptions write failed records to. A retry topic is read, too, by its subscription."""
    owners: dict[tuple[str, str], list[tuple[Reading, str]]] = defaultdict(list)
    for reading, draft in drafts:
        for path, topic in _written_topics(draft):
            owners[draft.connection, topic].append((reading, path))
    for (_, topic), shared in owners.items():
        files = [reading.file for reading, _ in shared]
        is_read = any(path == RETRIES for _, path in shared)
        for reading, path in shared if len(shared) > 1 else ():
            place = path if path in reading.lines else FAILURE
            others = _others(reading.file, files)
            if is_read:
                text = f"{path}: {topic} is also that of {others}; one would retry the other's records"
                yield _at(
                    reading, place, f"{text}: give each subscription topics of its own", "shared-retry-topic", topic
                )
            else:
                text = f"{path}: {topic} also gets the dead letters of {others}; they are listed and redriven together"
                rule, mend = "shared-dead-letter-topic", "give each subscription a topic of its own"
                yield _at(reading, place, f"{text}: {mend}", rule, topic, "warning")


def _written_topics(draft: Subscription) -> Iterator[tuple[str, str]]:
    """The topics that a subscription writes failed records to, each once, with the property that names it."""
    yield from ((RETRIES, topic) for topic in draft.retry_topics)
    if draft.dead_letter_topic is not None and draft.dead_letter_topic not in draft.retry_topics:
        yield DEAD_LETTERS, draft.dead_letter_topic


def _above(place: str) -> Iterator[str]:
    """The folders that a URI lies in, the nearest first."""
    while (end := place.rfind("/")) > 0:
        place = place[:end]
        yield place


def _at(  # noqa: PLR0917 (what a problem is made of, in the order that it has there)
    reading: Reading, path: str, message: str, rule: str, value: str, severity: Severity = "error"
) -> Problem:
    return Problem(message, rule, path, shown(path, value), severity, str(reading.file), reading.line(path))
