"""`tidegate test`: deliver the records that cases in YAML give, and compare."""

import os
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.console import Json, err, out, print_json
from tidegate.cli.settings import NameOrAll, settings_here
from tidegate.config.settings import TESTS, Settings
from tidegate.model.errors import WrongDefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.model.subscription import Problem
    from tidegate.runtime.definitions import AllDefinitions
    from tidegate.trial.cases import Case
    from tidegate.trial.running import CaseResult


def try_cases(
    name: NameOrAll = None,
    *,
    cases: Annotated[
        Path | None, typer.Option(help="A file of cases, or a folder of *.cases.yaml; default: tests in TIDEGATE_HOME.")
    ] = None,
    keyword: Annotated[str, typer.Option("-k", help="Only cases whose name contains this.")] = "",
    as_json: Json = False,
) -> None:
    """Run cases in YAML through the real Spark job, without Kafka, and compare what they write with what they expect.

    Spark is started locally, or is the one that TIDEGATE_TEST_SPARK names.
    """
    from tidegate.trial.running import run_case  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.trial.spark import trial_spark  # noqa: PLC0415 - see above

    settings = settings_here()
    chosen = _chosen(cases or settings.home / TESTS, name, keyword, settings)
    results = []
    with TemporaryDirectory(prefix="tidegate-test-") as folder:
        waiting = err.status("starting Spark") if err.is_terminal else nullcontext()
        with waiting, trial_spark(os.environ, Path(folder, "spark")) as spark:
            for number, case in enumerate(chosen):
                result = run_case(case, settings, spark, Path(folder, str(number)))
                results.append(result)
                if not as_json:
                    _print(result)
    failed = sum(not result.passed for result in results)
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        out.print(f"{len(results) - failed} passed, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _chosen(place: Path, name: str | None, keyword: str, settings: Settings) -> "Sequence[Case]":
    """The cases that were asked for. Raises WrongDefinitionError for a broken file, or if there are none to try."""
    from tidegate.config.reading import DefinitionError  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.trial.delivery import why_not_tried  # noqa: PLC0415 - see above

    definitions = AllDefinitions(settings)
    wrong = None if name is None else why_not_tried(definitions.load(name))  # raises: who names one wants to know
    found, problems = _read(place)
    problems += _of_nobody(found, definitions.names_at_hand())
    if problems:
        raise DefinitionError(problems)
    chosen = [case for case in found if name in (None, case.subscription) and keyword in case.name]
    if problems := list(_not_tried(chosen, definitions)):
        raise DefinitionError(problems)
    if not chosen:
        raise WrongDefinitionError(wrong or _no_case(place, name, keyword))
    return chosen


def _read(place: Path) -> "tuple[list[Case], list[Problem]]":
    """All cases of a file or below a folder, and what is wrong with those that can't be read."""
    from tidegate.config.reading import DefinitionError  # noqa: PLC0415 - see above
    from tidegate.trial.cases import SUFFIX, read_cases  # noqa: PLC0415 - see above

    found: list[Case] = []
    problems: list[Problem] = []
    for file in sorted(place.rglob(f"*{SUFFIX}")) if place.is_dir() else [place] if place.exists() else []:
        try:
            found += read_cases(file)
        except DefinitionError as error:
            problems += error.problems
    return found, problems


def _no_case(place: Path, name: str | None, keyword: str) -> str:
    from tidegate.trial.cases import SUFFIX  # noqa: PLC0415 - see above

    if not place.exists():
        return f"there is no file or folder {place}: write cases there (*{SUFFIX}), or name their file with --cases"
    of = f" of {name}" if name is not None else ""
    named = f" with {keyword!r} in its name" if keyword else ""
    return f"there is no case{of}{named} in {place} (*{SUFFIX}): write one, or name its file with --cases"


def _of_nobody(cases: "Sequence[Case]", names: "Sequence[str]") -> "Iterator[Problem]":
    """A problem of each file whose cases are of no subscription that is there; they would be left out."""
    from tidegate.config.nearest import nearest  # noqa: PLC0415 - see above
    from tidegate.model.subscription import Problem  # noqa: PLC0415 - see above

    for case in {case.file: case for case in reversed(cases) if case.subscription not in names}.values():
        text = (
            f"there is no subscription {case.subscription}, whose cases these are: write subscription: "
            f"{nearest(case.subscription, names) or 'NAME'} at the top of the file, or name it after one"
        )
        yield Problem(text, "no-subscription", "subscription", case.subscription, file=str(case.file), line=case.line)


def _not_tried(cases: "Sequence[Case]", definitions: "AllDefinitions") -> "Iterator[Problem]":
    """A problem of the first case of each subscription that can't be tried, and those of its definition if broken."""
    from tidegate.config.reading import DefinitionError  # noqa: PLC0415 - see above
    from tidegate.model.subscription import Problem  # noqa: PLC0415 - see above
    from tidegate.trial.delivery import why_not_tried  # noqa: PLC0415 - see above

    for case in {case.subscription: case for case in reversed(cases)}.values():
        try:
            wrong = why_not_tried(definitions.load(case.subscription))
        except DefinitionError as error:
            yield from error.problems
            continue
        if wrong:
            text = f"{wrong}; remove its cases"
            yield Problem(text, "not-tried", "subscription", case.subscription, file=str(case.file), line=case.line)


def _print(result: "CaseResult") -> None:
    case = result.case
    verdict, style = ("passed", "green") if result.passed else ("FAILED", "red")
    out.print(f"[{style}]{verdict}[/]  ", end="")
    out.print(f"{case.subscription}: {case.name} ({result.seconds:.1f} s)", markup=False)
    if not result.passed:
        out.print(f"  {case.file}:{case.line}", markup=False)
        for line in result.differences:
            out.print("\n".join(f"  {each}" for each in line.splitlines()), markup=False)
