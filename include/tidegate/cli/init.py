"""`tidegate init`: a first definition, its transform and their tests, and the DAG files."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from tidegate.cli.console import out
from tidegate.cli.settings import settings_for_new, settings_here
from tidegate.config.settings import TESTS, Settings
from tidegate.model.errors import TidegateError, WrongDefinitionError

_DAG_FILES = {
    "tidegate_subscriptions.py": ("subscriptions_dag.py", "subscription_dags("),
    "tidegate_problems.py": ("problems_dag.py", "refuse_broken_definitions("),
}
"""The DAG files: their templates, and what a file calls that does the same."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    text: str


def init(
    name: Annotated[str, typer.Argument(help="The subscription's name: a small letter, then a-z 0-9 _ -.")],
    *,
    topic: Annotated[str | None, typer.Option(help="The topic to read; default: the subscription's name.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="The home folder; default: the one that is set, or tidegate in AIRFLOW_HOME, or the working folder."
        ),
    ] = None,
    dags: Annotated[
        Path | None, typer.Option(help="The folder for the DAG files; default: Airflow's, if Airflow is set up.")
    ] = None,
) -> None:
    """Write a first definition, a transform, its tests, and missing DAG files. Nothing is overwritten."""
    settings = settings_for_new(folder)
    own = list(_own_files(name, topic or name, settings))
    _check(name, own[0])
    if there := [file.path for file in own if os.path.lexists(file.path)]:
        raise WrongDefinitionError(
            f"nothing was written, for {', '.join(map(_shown, there))} would be overwritten: remove what you don't "
            "need, or take another name"
        )
    missing = list(_dag_files(dags, os.environ))
    _write([*own, *missing])
    for file in (*own, *missing):
        out.print(f"wrote {_shown(file.path)}", markup=False)
    _print_next(name, own[-1].path, settings)


def _own_files(name: str, topic: str, settings: Settings) -> Iterator[_File]:
    """The definition first, the Python test last."""
    module = f"{name.replace('-', '_')}_transform"
    values = {"name": name, "topic": topic, "module": module}
    places = {
        "definition.yaml": settings.subscriptions / f"{name}.yaml",
        "transform.py": settings.spark_jobs / f"{module}.py",
        "cases.yaml": settings.home / TESTS / f"{name}.cases.yaml",
        "test.py": settings.home / TESTS / f"test_{name.replace('-', '_')}.py",
    }
    for template, path in places.items():
        yield _File(path, _template(template, values))


def _check(name: str, definition: _File) -> None:
    """Raise WrongDefinitionError where the definition would be broken: by its name, or by its topic."""
    from tidegate.config.reading import (  # noqa: PLC0415 - `tidegate --help` needn't wait for it
        NAME,
        NAME_IN_WORDS,
        DefinitionError,
        read_text,
    )

    if not NAME.fullmatch(name):
        raise WrongDefinitionError(f"{name!r} can't be a subscription's name: write {NAME_IN_WORDS}")
    problems = read_text(definition.path, definition.text).problems
    if any(problem.severity == "error" for problem in problems):
        raise DefinitionError(problems)


def _dag_files(dags: Path | None, environ: Mapping[str, str]) -> Iterator[_File]:
    """The DAG files that nothing in the folder stands in for; none where there is no Airflow."""
    from tidegate.config.airflow_cfg import dags_folder, is_configured  # noqa: PLC0415 - see above

    if dags is None and not is_configured(environ):
        return
    folder = dags or dags_folder(environ)
    there = [path.read_text("utf-8", errors="replace") for path in folder.glob("*.py")]
    for file, (template, call) in _DAG_FILES.items():
        if not any(call in text for text in there):
            yield _File(folder / file, _template(template, {}))


def _template(name: str, values: Mapping[str, str]) -> str:
    text = files("tidegate.cli").joinpath("templates", f"{name}.template").read_text("utf-8")
    return Template(text).substitute(values)


def _write(several: Iterable[_File]) -> None:
    """Write all of them, or none. Raises WrongDefinitionError."""
    made: list[Path] = []
    written: list[Path] = []
    try:
        for file in several:
            for folder in reversed([each for each in file.path.parents if not each.exists()]):
                folder.mkdir()
                made.append(folder)
            with file.path.open("x", encoding="utf-8") as opened:
                written.append(file.path)
                opened.write(file.text)
    except OSError as error:
        for path in written:
            path.unlink()
        for folder in reversed(made):
            folder.rmdir()
        raise WrongDefinitionError(
            f"{error.filename} can't be written ({error.strerror}), and nothing was: name another place with "
            "--folder or --dags"
        ) from None


def _print_next(name: str, test: Path, settings: Settings) -> None:
    """The next commands, as they can be copied."""
    out.print("next:")
    if not _is_found(settings):
        out.print(f"  export TIDEGATE_HOME={shlex.quote(str(settings.home))}", markup=False)
    out.print("  tidegate check")
    out.print(f"  tidegate test {name}", markup=False)
    if find_spec("pytest") is not None:
        out.print(f"  pytest {shlex.quote(_shown(test))}", markup=False)


def _is_found(settings: Settings) -> bool:
    """Whether the commands, here, find what was written."""
    try:
        return settings_here().home == settings.home
    except TidegateError:
        return False


def _shown(path: Path) -> str:
    """The path as it is from here, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
