"""The pipeline of a subscription as the command line opens it, with the connections of this environment."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

from tidegate.cli.connections import connections_here
from tidegate.cli.console import err
from tidegate.config.settings import Settings
from tidegate.ports import Connections

_SLOW_SECONDS = 5


@contextmanager
def pipeline_here(subscription: Any, settings: Settings, connections: Connections | None = None) -> Iterator[Any]:
    """See `tidegate.runtime.pipeline.open_pipeline`, which is imported only here: it takes its time.

    Who opens many gives the `connections_here` that all share, so that Airflow is asked once for each.
    """
    from tidegate.runtime.pipeline import open_pipeline  # noqa: PLC0415 - see above

    with open_pipeline(subscription, settings, connections or connections_here()) as pipeline:
        yield pipeline


@contextmanager
def pipeline_after_runs(subscription: Any, settings: Settings) -> Iterator[Any]:
    """The pipeline for what is done about earlier runs. Raises WrongDefinitionError where the ledger knows of none."""
    from tidegate.runtime.unmade_ledger import require_runs  # noqa: PLC0415 - see above

    require_runs(subscription.name, settings.ledger)
    with told_if_slow(), pipeline_here(subscription, settings) as pipeline:
        yield pipeline


@contextmanager
def looking(settings: Settings, *, changes: bool) -> Iterator[Settings]:
    """The settings to look with: a ledger in which no run has written is told, and one that isn't there isn't made.

    Unless the command `changes` something, which the ledger is to keep.
    """
    from tidegate.runtime.unmade_ledger import readable_ledger  # noqa: PLC0415 - see above

    warn_of_no_run(settings)
    if changes:
        yield settings
        return
    with readable_ledger(settings) as readable:
        yield readable


@contextmanager
def told_if_slow() -> Iterator[None]:
    """Say it where brokers are asked for seconds: a silence of minutes passes for a hang."""
    said = "still asking: brokers that don't answer are given up after the definition's poll-timeout.ms"
    timer = Timer(_SLOW_SECONDS, err.print, [said], {"markup": False})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def warn_of_no_run(settings: Settings) -> None:
    """Say it where the ledger knows of no run. Raises UnavailableError, UnusableLedgerError."""
    from tidegate.runtime.unmade_ledger import AFTER_RUNS, no_run  # noqa: PLC0415 - see above

    if missing := no_run(settings.ledger):
        err.print(f"{missing}; {AFTER_RUNS}", style="yellow", markup=False)
