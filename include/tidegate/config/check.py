"""The checks behind `tidegate check`: every problem of every definition at once, and between them.

A group, an output and a retry topic belong to one subscription; a transform and a job must be there to be called.
Nothing is connected to, and nothing is imported unless it is asked for.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import abspath
from pathlib import Path
from types import MappingProxyType

from tidegate.config.airflow_defaults import DEFAULTS_FILE, AirflowDefaults, read_defaults
from tidegate.config.callbacks import callback_problems
from tidegate.config.drafts import Draft, problem_at, sharing
from tidegate.config.group_checks import shared_groups, shared_topics
from tidegate.config.holders import NOBODY, Holders
from tidegate.config.module_search import hiding
from tidegate.config.output_checks import own_outputs, shared_outputs, shared_tables, taken_folders
from tidegate.config.reading import SUFFIX, Reading, read
from tidegate.config.settings import SPARK_JOBS, absolute_uri
from tidegate.config.transforms import CALLS, LONGEST_IMPORT, TransformFiles, import_complaints
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import Problem, Subscription

PLUGINS = "plugins"
NOT_READ = "not-read"
"""The rule of a file that isn't taken for a definition."""


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

    def with_those(self, files: Collection[Path], report: "Report") -> "Report":
        """What both say, the other one of these files alone."""
        named = set(map(str, files))
        usable = [each for each in report.usable if each[0].file in files]
        problems = [each for each in report.problems if each.file in named]
        return Report((*self.usable, *usable), (*self.problems, *problems))


def examine(
    paths: Sequence[Path],
    home: Path,
    *,
    imports: bool = False,
    longest_import: float = LONGEST_IMPORT,
    holders: Holders = NOBODY,
    more: Sequence[Reading] = (),
    absent: str = "there is no such file or folder",
    folder: Path | None = None,
    own: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """Check files, and folders of them, one by one and against each other and their neighbours in the same folder.

    `home` is the folder that outputs and jobs are relative to. Transforms are looked for in its spark_jobs/, then in
    all that this process imports from; callbacks and notifiers in its plugins/ and there. With `imports` all are
    imported, in a child process that gives each module `longest_import` seconds. Of definitions that share what can be
    only one's, the one that has used it, as `holders` tell, stays usable. `more` are definitions that aren't files;
    `absent` is what to say of a path that isn't there, `folder` is where the installation's definitions lie, if another
    one may be asked about, `own` are the installation's own places, see `own_outputs`.
    """
    asked = _distinct(file for path in paths for file in definition_files(path))
    folders = {file.parent: None for file in asked.values()}
    asked_folders = (path if path.is_dir() else path.parent for path in paths if path.exists())
    defaults = {folder: read_defaults(folder) for folder in dict.fromkeys([*asked_folders, *folders])}
    beside = _distinct(file for folder in folders if folder.is_dir() for file in definition_files(folder))
    readings = [*(_read(file, defaults) for file in asked.values()), *more]
    asked_defaults = _different([*defaults.values(), *(reading.defaults for reading in more)])
    drafts = _drafts(readings)
    everyone = [*drafts, *_drafts(_read(file, defaults) for place, file in beside.items() if place not in asked)]
    found = [problem for reading in readings for problem in reading.problems]
    found += [problem for each in asked_defaults for problem in each.problems]
    found += _job_problems(drafts, home)
    hidden = list(_hidden_modules(drafts, home / SPARK_JOBS))
    found += _transform_problems(drafts, home / SPARK_JOBS, longest_import if imports and not hidden else None)
    found += [*taken_folders(drafts, home), *own_outputs(drafts, home, own)]
    if imports:
        found += callback_problems(drafts, asked_defaults, home / PLUGINS, longest_import)
    found += [*_shared_names(everyone), *shared_groups(everyone, holders)]
    found += [*shared_outputs(everyone, home, holders), *shared_tables(everyone, home)]
    found += shared_topics(everyone, holders)
    files = [*(each.file for each in asked_defaults), *(reading.file for reading in readings)]
    order = {str(file): number for number, file in enumerate(files)}
    known = [problem for problem in found if problem.file in order]
    known.sort(key=lambda problem: (order[problem.file], problem.line))
    broken = {problem.file for problem in known if problem.severity == "error"}
    usable = tuple(
        (reading, draft) for reading, draft in drafts if not broken & {str(reading.file), str(reading.defaults.file)}
    )
    return Report(usable, (*known, *hidden, *_of_places(paths, absent, folder)))


def definition_files(path: Path) -> list[Path]:
    """The definitions that a path means; the file with their defaults is none."""
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.suffix.lower() in (SUFFIX, ".yml"))
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


def _of_places(paths: Sequence[Path], absent: str, folder: Path | None) -> Iterator[Problem]:
    """Paths that have no definition, and files below the folder of definitions, where none is looked for."""
    for path in paths:
        is_elsewhere = folder is not None and abspath(path) != abspath(folder)  # noqa: PTH100 (as of definitions)
        if not path.exists():
            yield Problem(absent, "unreadable", file=str(path))
        elif path.name != DEFAULTS_FILE and not definition_files(path):
            where = f": definitions lie in {folder}" if is_elsewhere else ""
            text = f"no definition (*{SUFFIX}) in this folder{where}"
            yield Problem(text, "empty", severity="warning", file=str(path))
        for file in () if is_elsewhere else sorted(_below(path)):
            text = f"it isn't read, as definitions lie in {path} itself: move it there, or out of this folder"
            yield Problem(text, NOT_READ, severity="warning", file=str(file))


def _below(path: Path) -> Iterator[Path]:
    """What looks like definitions in folders of a folder; Kubernetes mounts a ConfigMap's files by hidden ones."""
    for folder in path.iterdir() if path.is_dir() else ():
        if not folder.name.startswith("."):
            yield from folder.glob(f"**/*{SUFFIX}")


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
        file = place.removeprefix("file://")
        if file != place and _is_missing(Path(file)):
            yield problem_at(reading, path, f"{path}: there is no file {file}", "no-job", job)


def _is_missing(file: Path) -> bool:
    """Whether there is no such file, as far as this user may see."""
    try:
        return not file.is_file()
    except PermissionError:
        return False


def _hidden_modules(drafts: Sequence[Draft], jobs: Path) -> Iterator[Problem]:
    """Files of the folder `jobs` that break whatever is imported there."""
    if any(draft.processing.kind == "spark" for _, draft in drafts):
        for file, module in hiding(jobs):
            yield Problem(f"it hides {module} from all jobs: rename it", "hides-module", file=str(file))


def _transform_problems(drafts: Sequence[Draft], jobs: Path, longest: float | None) -> Iterator[Problem]:
    """Transforms that aren't there, and with `longest` those whose import fails."""
    named = [(reading, draft.processing.transform) for reading, draft in drafts if draft.processing.transform]
    files = TransformFiles(jobs)
    complaints = {name: wrong for name in {name for _, name in named} if (wrong := files.wrong(name))}
    if longest is not None:
        rest = sorted({name for _, name in named} - complaints.keys())
        complaints |= import_complaints(rest, jobs, longest, CALLS)
    path = "processing.transform"
    for reading, name in named:
        if name in complaints:
            yield problem_at(reading, path, f"{path}: {complaints[name]}", "no-transform", name)


def _shared_names(drafts: Sequence[Draft]) -> Iterator[Problem]:
    for (reading, draft), others in sharing(drafts, lambda draft: draft.name):
        text = f"the name is also that of {others}; both are one DAG: rename one file"
        yield problem_at(reading, "", text, "shared-name", draft.name)
