"""The checks behind `tidegate check`: every problem of every definition at once, and between them.

A group, an output and a retry topic belong to one subscription; a transform and a job must be there to be called.
Nothing is connected to, and nothing is imported unless it is asked for.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import abspath
from pathlib import Path

from tidegate.config.airflow_defaults import DEFAULTS_FILE, AirflowDefaults, read_defaults
from tidegate.config.callbacks import callback_problems
from tidegate.config.drafts import Draft, other_files, problem_at, sharing
from tidegate.config.output_checks import shared_outputs, taken_folders
from tidegate.config.reading import SUFFIX, Reading, read
from tidegate.config.settings import SPARK_JOBS, absolute_uri
from tidegate.config.strategies import DEAD_LETTERS, FAILURE, RETRIES
from tidegate.config.transforms import LONGEST_IMPORT, TransformFiles, import_complaints
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import Problem, Subscription

PLUGINS = "plugins"
_HELD = "held-group"
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
    all that this process imports from; callbacks and notifiers in its plugins/ and there. With `imports` all are
    imported, in a child process that gives each module `longest_import` seconds. Of definitions with one group the one
    that has read with it, as `holders` tell, stays usable. `more` are definitions that aren't files; `absent` is what
    to say of a path that isn't there.
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
    found += taken_folders(drafts, home)
    if imports:
        found += callback_problems(drafts, asked_defaults, home / PLUGINS, longest_import)
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
            yield problem_at(reading, path, f"{path}: {error}", "no-job", job)
            continue
        if place.startswith("file://") and not Path(place.removeprefix("file://")).is_file():
            yield problem_at(reading, path, f"{path}: there is no file {place.removeprefix('file://')}", "no-job", job)


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
            yield problem_at(reading, path, f"{path}: {complaints[name]}", "no-transform", name)


def _shared_names(drafts: Sequence[Draft]) -> Iterator[Problem]:
    for (reading, draft), others in sharing(drafts, lambda draft: draft.name):
        text = f"the name is also that of {others}; both are one DAG: rename one file"
        yield problem_at(reading, "", text, "shared-name", draft.name)


def _shared_groups(drafts: Sequence[Draft], holders: Holders) -> Iterator[Problem]:
    """One group in two definitions, on whatever topics: its fence and its receipts are one subscription's."""
    path = "consumer.group.id"
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, draft in drafts:
        names[draft.connection, draft.consumer.group_id].add(draft.name)
    for (reading, draft), others in sharing(drafts, lambda draft: (draft.connection, draft.consumer.group_id)):
        group = draft.consumer.group_id
        held = names[draft.connection, group] & set(holders(group))
        if held == {draft.name}:
            continue
        if len(held) == 1:
            text = f"{path}: {group} is the group that {held.pop()} reads with: give {draft.name} a group of its own"
            yield problem_at(reading, path, text, _HELD, group)
        else:
            text = (
                f"{path} is also that of {others}; both would fence each other's commits and move each other's "
                "offsets, on different topics too: give each a group of its own"
            )
            yield problem_at(reading, path, text, "shared-group", group)


def _newcomers(drafts: Sequence[Draft], holders: Holders) -> frozenset[str]:
    """The files of definitions whose group is another one's, which reads with it."""
    found = {each.file for each in _shared_groups(drafts, holders) if each.rule == _HELD}
    return frozenset(found)


def _shared_places(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    yield from shared_outputs(drafts, home)
    yield from _shared_topics(drafts)


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
            others = other_files(reading.file, files)
            if is_read:
                text = f"{path}: {topic} is also that of {others}; one would retry the other's records"
                yield problem_at(
                    reading, place, f"{text}: give each subscription topics of its own", "shared-retry-topic", topic
                )
            else:
                text = f"{path}: {topic} also gets the dead letters of {others}; they are listed and redriven together"
                rule, mend = "shared-dead-letter-topic", "give each subscription a topic of its own"
                yield problem_at(reading, place, f"{text}: {mend}", rule, topic, "warning")


def _written_topics(draft: Subscription) -> Iterator[tuple[str, str]]:
    """The topics that a subscription writes failed records to, each once, with the property that names it."""
    yield from ((RETRIES, topic) for topic in draft.retry_topics)
    if draft.dead_letter_topic is not None and draft.dead_letter_topic not in draft.retry_topics:
        yield DEAD_LETTERS, draft.dead_letter_topic
