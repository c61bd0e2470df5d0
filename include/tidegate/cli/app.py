"""`tidegate`: run a batch, check definitions, see where subscriptions stand.

Exit status: 0 done or nothing to do, 1 a batch, a check or a system failed, 2 a definition or a setting is wrong, 130
or 143 it was interrupted. That of `status --check` is a monitoring plugin's: 0 OK, 1 WARN or REWOUND, 2 STALLED,
STOPPED or UNREACHABLE, 3 unknown.
"""

import logging
import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.logging import RichHandler
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from tidegate.cli import batches, dead_letters, group, ledger
from tidegate.cli.connections import connections_here, inside_airflow
from tidegate.cli.console import Json, err, out, print_json, wants_json
from tidegate.cli.create_topics import create_topics
from tidegate.cli.files import files
from tidegate.cli.init import init
from tidegate.cli.interrupts import INTERRUPTED, interruptible
from tidegate.cli.maintain import maintain
from tidegate.cli.metrics import metrics
from tidegate.cli.person import person_here
from tidegate.cli.pipeline import pipeline_after_runs, pipeline_here, told_if_slow, warn_of_no_run
from tidegate.cli.plan import plan
from tidegate.cli.prune import prune
from tidegate.cli.replay import replay
from tidegate.cli.reprocess import reprocess
from tidegate.cli.settings import Name, settings_here, show_settings
from tidegate.cli.status import status, watch
from tidegate.cli.try_cases import try_cases
from tidegate.config.settings import Settings, umask
from tidegate.config.unknown_variables import unknown_variables
from tidegate.model.counting import counted
from tidegate.model.errors import TidegateError, WrongDefinitionError, not_for_this_user
from tidegate.model.subscription import Problem, Severity

_OF_CLIENTS = "tidegate.kafka.events"
_SAYS_SO = frozenset({"asking", "interrupted", "refused", "stopped"})
"""States of a run with an error that say more of it than that it failed."""
_LINE = "%(asctime)s %(levelname)s %(message)s"


class _Commands(TyperGroup):
    """Commands whose errors are told as a sentence and by the exit status, in JSON too where JSON is asked for."""

    def invoke(self, ctx: Any) -> Any:  # click's, or typer's copy of it
        with interruptible() as caught:
            return self._invoke(ctx, caught)

    def _invoke(self, ctx: Any, caught: list[int]) -> Any:
        try:
            os.umask(umask(os.environ))
            _log_to_stderr()
            for said in unknown_variables(os.environ):
                err.print(said, style="yellow", markup=False)
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if wants_json(ctx):
                print_json({"error": error.format_message()})
            raise
        except TidegateError as error:
            _end(ctx, str(error), 2 if isinstance(error, WrongDefinitionError) else 1)
        except PermissionError as error:
            _end(ctx, not_for_this_user(error), 1)
        except KeyboardInterrupt:
            _end(ctx, INTERRUPTED, 128 + (caught or [signal.SIGINT])[0])


def _end(ctx: Any, error: str, status: int) -> None:
    if wants_json(ctx):
        print_json({"error": error})
    err.print(f"tidegate: {error}", style="red", markup=False)
    ctx.exit(status)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # which joins the lines of a paragraph
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(group.app, name="group")
app.add_typer(batches.app, name="batch")
app.command()(plan)
app.command()(status)
app.command()(watch)
app.command()(metrics)
app.command("batches")(batches.batches)
app.add_typer(ledger.app, name="ledger")
app.command("create-topics")(create_topics)
app.command()(replay)
app.command()(reprocess)
app.command()(prune)
app.command()(maintain)
app.command()(files)
app.command()(init)
app.command("test")(try_cases)
app.command("settings")(show_settings)
offsets = typer.Typer(
    no_args_is_help=True, help="Continue in another Kafka cluster, or move positions to another store."
)
app.add_typer(offsets, name="offsets")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 (as typer hands it over)
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - each command imports only what it needs

        print(f"tidegate {version('tidegate')}")  # noqa: T201 - for scripts, in no terminal's colours
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Move records from Kafka into a data lake in bounded batches; offsets are committed last.

    Exit status: 0 done or nothing to do, 1 a batch, a check or a system failed, 2 a definition, a setting or an option
    is wrong, 130 or 143 it was interrupted. plan and status --check have their own.
    """


@app.command()
def run(
    name: Name,
    as_json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the log of each step.")] = False,
) -> None:
    """Run one batch of a subscription here, without Airflow: plan, land, process, commit."""
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - each command imports only what it needs
    from tidegate.runtime.run import run_batch  # noqa: PLC0415 - see above

    if verbose:
        _log_each_step()
    settings = settings_here()
    subscription = AllDefinitions(settings).load_to_run(name)
    with pipeline_here(subscription, settings) as pipeline:
        progress = err.status("") if err.is_terminal and not verbose else nullcontext()
        with progress as spinner:

            def said(step: str) -> None:
                if step == "plan":
                    step = f"plan, which waits up to {subscription.poll_timeout_ms / 1000:g} s for records"
                if spinner is not None:
                    spinner.update(f"{name}: {step}")
                elif not as_json:
                    err.print(f"{name}: {step}", markup=False)

            with interruptible() as caught:
                done = run_batch(pipeline, said)
    if as_json:
        print_json(done.to_json())
    else:
        _print_run(done.to_json())
    if caught:
        raise typer.Exit(128 + caught[0])
    if done.error is not None:
        raise typer.Exit(2 if isinstance(done.error, WrongDefinitionError) else 1)


@app.command()
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files, folders, or names of subscriptions; default: all definitions."),
    ] = None,
    as_json: Json = False,
    look_only: Annotated[
        bool, typer.Option("--no-import", help="Look for transforms without importing anything.")
    ] = False,
    connect: Annotated[
        bool,
        typer.Option(
            help="Also check what a run needs: pools, brokers, topics, rights, Schema Registry, Spark, HTTP servers."
        ),
    ] = False,
) -> None:
    """Check definitions and show every problem, with file, line and property.

    Transforms, callbacks and failure strategies are imported.

    Exit status: 0 no error, 1 errors, 2 there is no definition to check.
    """
    from tidegate.checks.other_dags import with_other_dags  # noqa: PLC0415 - see above

    settings = settings_here()
    waiting = err.status("checking") if err.is_terminal else nullcontext()
    with waiting:
        report = _examined(paths or [], settings, imports=not look_only)
        if not look_only:
            report = _with_own_strategies(report)
        report = _with_executors(report, settings, "error" if inside_airflow.get() else "warning")
        asked = report.usable
        if connect:
            report = _connected(report, settings)
        report = _with_pools(report, asked, connect=connect)
        if inside := inside_airflow.get():
            report = with_other_dags(report, inside.other_dags)
        if not paths:
            report = _with_orphans(report, settings)
    if as_json:
        print_json([problem.to_json() for problem in report.problems])
    else:
        _print_problems("errors", report.errors, "red")
        _print_problems("warnings", report.warnings, "yellow")
        found = f"{counted(len(report.errors), 'error')}, {counted(len(report.warnings), 'warning')}"
        out.print(f"{len(report.subscriptions)} fine, {found}")
    if _is_of_nothing(report, paths or [settings.subscriptions]):
        raise typer.Exit(2)
    if report.errors:
        raise typer.Exit(1)


def _is_of_nothing(report: Any, places: Sequence[Path]) -> bool:
    """Whether there is no definition in these places at all, right or wrong."""
    from tidegate.config.check import NOT_READ  # noqa: PLC0415 - see above

    named = set(map(str, places))
    said_of_places = all(problem.file in named or problem.rule == NOT_READ for problem in report.problems)
    return not report.subscriptions and said_of_places and not any(place.is_file() for place in places)


def _examined(paths: Sequence[Path], settings: Settings, *, imports: bool) -> Any:
    """The report of these files and folders, or of all definitions, of which a ledger that is away hides some."""
    from tidegate.config.check import examine  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions, is_stored  # noqa: PLC0415 - see above

    definitions = AllDefinitions(settings)
    if not paths:
        try:
            return definitions.report(imports=imports)
        except TidegateError as error:
            err.print(f"the ledger wasn't asked for definitions that were stored by REST: {error}", markup=False)
    places = [_named(path, definitions) for path in paths] or [settings.subscriptions]
    stored = {place for place in places if is_stored(place)}
    report = examine(
        [place for place in places if place not in stored],
        settings.home,
        imports=imports,
        holders=definitions.holders,
        own=settings.own_places,
        absent=f"there is no such file or folder, and no subscription of this name in {settings.subscriptions}",
        folder=settings.subscriptions,
    )
    return report.with_those(stored, definitions.report(imports=imports)) if stored else report


def _named(path: Path, definitions: Any) -> Path:
    """The path, or what problems name of the definition of this name, also where a folder has it and no definition."""
    from tidegate.config.check import definition_files  # noqa: PLC0415 - see above

    if path.is_dir():
        file: Path = definitions.file(str(path))
        return file if file.is_file() and not definition_files(path) else path
    found: Path = path if path.exists() else definitions.place(str(path).removesuffix(".yaml")) or path
    return found


def _with_own_strategies(report: Any) -> Any:
    """With an error for a failure strategy of another package that can't be begun."""
    from tidegate.checks.own_strategies import with_strategy_errors  # noqa: PLC0415 - see above

    return with_strategy_errors(report)


def _with_executors(report: Any, settings: Settings, severity: Severity) -> Any:
    """With what there is to say of executors: that Airflow lacks one, and what its tasks wouldn't find elsewhere."""
    from tidegate.config.executors import executor_warnings, with_missing_executors  # noqa: PLC0415 - see above

    report = with_missing_executors(report, os.environ, severity)
    return replace(report, problems=(*report.problems, *executor_warnings(report, settings, os.environ)))


def _with_pools(report: Any, asked: Any, *, connect: bool) -> Any:
    """With an error for a pool that Airflow doesn't have: known inside of Airflow, elsewhere it is asked."""
    from tidegate.checks.pools import AirflowPools, with_pool_errors  # noqa: PLC0415 - see above

    inside = inside_airflow.get()
    ask = inside.pools if inside else (AirflowPools(os.environ) if connect else None)
    return report if ask is None else with_pool_errors(report, ask, asked)


def _with_orphans(report: Any, settings: Settings) -> Any:
    """With a warning for each open batch of which there is no definition; a ledger that is away is another's affair."""
    from tidegate.ledger.holders import orphaned_batches  # noqa: PLC0415 - see above
    from tidegate.monitoring.health import orphaned  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    try:
        names = AllDefinitions(settings).names()
        found = [orphaned(batch) for batch in orphaned_batches(settings.ledger, names)]
    except TidegateError as error:
        err.print(f"the ledger wasn't asked for batches without a definition: {error}", markup=False)
        return report
    folder = str(settings.subscriptions)
    problems = [
        Problem(f"{each.reason}: {each.action}", "orphaned-batch", severity="warning", file=folder) for each in found
    ]
    return replace(report, problems=(*report.problems, *problems))


def _connected(report: Any, settings: Settings) -> Any:
    from tidegate.checks.connection_check import connected  # noqa: PLC0415 - see above

    return connected(report, settings, connections_here())


@app.command()
def schema() -> None:
    """Print the JSON Schema of definitions, with which editors complete and check them."""
    from tidegate.config.json_schema import schema_text  # noqa: PLC0415 - see above

    print(schema_text(), end="")  # noqa: T201 - the document alone, in no terminal's colours


@app.command()
def commit(name: Name, as_json: Json = False) -> None:
    """Commit the offsets of the published batch that waits for it: of commit-strategy manual or on-next-poll."""
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    settings = settings_here()
    with pipeline_after_runs(AllDefinitions(settings).load(name), settings) as pipeline:
        batch = pipeline.commit_open()
    committed = {str(r.at): r.end for r in batch.ranges}
    if as_json:
        print_json({"subscription": name, "batch_id": batch.id, "state": batch.condition, "committed": committed})
        return
    out.print(f"{batch} is {batch.condition}", markup=False)
    for at, end in committed.items():
        out.print(f"  {at} committed at {end}", markup=False)


class _Answer(StrEnum):
    """What can be done with a batch that stopped or asks, as `tidegate.model.batch.ANSWERS`."""

    REDELIVER = "redeliver"
    DEAD_LETTER = "dead-letter"
    SKIP = "skip"
    STOP = "stop"


@app.command()
def clear(
    name: Name,
    answer: Annotated[
        _Answer,
        typer.Option(
            help="What happens to the batch. redeliver: it is processed again, with all retries; dead-letter: its "
            "records go to the dead-letter topic; skip: it is committed, not published; stop: it stays stopped."
        ),
    ] = _Answer.REDELIVER,
    note: Annotated[str, typer.Option(help="Why; kept in the ledger.")] = "",
    as_json: Json = False,
) -> None:
    """Let a stopped subscription continue, by default by processing the same batch again.

    It also takes an open batch that isn't stopped: one that has landed, has retries left, or is being delivered, which
    counts as failed then. Dead-letter and skip are final.
    """
    from tidegate.model.batch import Resolution  # noqa: PLC0415 - see above
    from tidegate.operations.actions.clearing import what_follows  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    settings, resolution = settings_here(), Resolution(answer.value)
    with pipeline_after_runs(AllDefinitions(settings).load(name), settings) as pipeline:
        batch = pipeline.clear(person_here(), note, resolution)
    if as_json:
        print_json({"subscription": name, "batch_id": batch.id, "answer": answer.value, "state": batch.condition})
    else:
        out.print(f"{batch} is cleared ({answer.value}): {what_follows(batch, resolution)}", markup=False)


@offsets.command("accept-cluster")
def accept_cluster(name: Name, as_json: Json = False) -> None:
    """Let a subscription continue in another Kafka cluster, the one that its connection now leads to.

    It continues where that cluster has its group, else at its cursor or auto.offset.reset; with commit-strategy:
    checkpoint always at the latter. An open batch is abandoned unless its offsets are committed: its unpublished
    records are read again only if the new cluster has them.
    """
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.steps import ownership  # noqa: PLC0415 - see above

    settings = settings_here()
    with pipeline_after_runs(AllDefinitions(settings).load(name), settings) as pipeline:
        abandoned = ownership.accept_cluster(pipeline, person_here())
        cluster = pipeline.source.cluster_id()
    if as_json:
        print_json({"subscription": name, "cluster": cluster, "abandoned": abandoned.id if abandoned else None})
        return
    out.print(f"{name} goes on in cluster {cluster} with its next run", markup=False)
    if abandoned is not None:
        ranges = ", ".join(str(r) for r in abandoned.ranges if not r.is_empty)
        out.print(f"  batch {abandoned.id} of the other cluster is abandoned: {ranges}", markup=False)


@offsets.command("move")
def move(name: Name, as_json: Json = False) -> None:
    """Move a subscription's positions to where its commit-strategy keeps them: Kafka, or the ledger for checkpoint.

    The next run continues where the last one ended. Refused while a batch is open: commit it first under the
    commit-strategy that it was planned with. A transform's state isn't moved.
    """
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.steps.move_positions import move_positions  # noqa: PLC0415 - see above

    settings = settings_here()
    subscription = AllDefinitions(settings).load(name)
    warn_of_no_run(settings)
    with told_if_slow(), pipeline_here(subscription, settings) as pipeline:
        moved = move_positions(pipeline, person_here())
    if as_json:
        positions = [{"topic": at.topic, "partition": at.partition, "offset": o} for at, o in moved.positions.items()]
        print_json({"subscription": name, "store": moved.store.name.lower(), "positions": positions})
        return
    out.print(f"{name}'s positions are in {moved.store}, and its next run goes on from there", markup=False)
    for at, offset in sorted(moved.positions.items()):
        out.print(f"  {at} at {offset}", markup=False)


def main() -> None:
    """What the command of version 0.1 calls, in a checkout that was updated since and not installed."""
    err.print("tidegate: this checkout is newer than what is installed: run `make install`", markup=False)
    raise SystemExit(1)


def _log_to_stderr() -> None:
    """Warnings, in colours on a terminal; elsewhere a line for each, however long: whoever reads it may wrap it.

    Not what a Kafka client reports of its connections: what comes of it is an error, or passes.
    """
    rich = err.is_terminal
    handler = RichHandler(console=err, show_path=False, markup=False) if rich else logging.StreamHandler()
    logging.basicConfig(level=logging.WARNING, handlers=[handler], format="%(message)s" if rich else _LINE)
    logging.getLogger(_OF_CLIENTS).setLevel(logging.ERROR)


def _log_each_step() -> None:
    logging.getLogger("tidegate").setLevel(logging.INFO)
    logging.getLogger(_OF_CLIENTS).setLevel(logging.NOTSET)


def _print_problems(title: str, problems: Sequence[Problem], style: str) -> None:
    """On a terminal below the names of their files, elsewhere a line each, as compilers do."""
    if not out.is_terminal:
        for problem in problems:
            out.print(str(problem), markup=False)
        return
    if problems:
        out.print(title, style=f"bold {style}")
    for file, several in groupby(problems, key=lambda problem: problem.file):
        out.print(f"  {file}", style="bold", markup=False)
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 1))
        for problem in several:
            line = Text(str(problem.line or ""), justify="right")
            table.add_row(line, Text(problem.message), Text(problem.rule, style=f"dim {style}"))
        out.print(Padding(table, (0, 0, 0, 2)))


def _print_run(run: dict[str, Any]) -> None:
    if run["error"]:
        failed = run["state"] if run["state"] in _SAYS_SO else "failed"
        out.print(f"{run['subscription']}: {failed}: {run['error']}", style="red", markup=False)
        return
    if run["batch_id"] is None:
        out.print(f"{run['subscription']}: no new batch: {run['why']}", markup=False)
        return
    filtered = f", {run['filtered']:,} filtered" if run["filtered"] else ""
    took = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in run["seconds"].items())
    out.print(
        f"{run['subscription']}: batch {run['batch_id']} {run['state']}: {counted(run['records'], 'record')}, "
        f"{counted(run['rows'] or 0, 'row')}, {run['rejected'] or 0:,} rejected{filtered} ({took})",
        markup=False,
    )
    if run["why"]:
        out.print(f"  {run['why']}", markup=False)
    for at, end in run["committed"].items():
        out.print(f"  {at} committed at {end}", markup=False)
