"""A ledger that isn't there, or in which no run has written: what to say of it, and how to look without making it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.config.settings import Settings, redact
from tidegate.ledger.holders import has_tables
from tidegate.ledger.run_log import SqlRunLog
from tidegate.model.errors import WrongDefinitionError

AFTER_RUNS = (
    "if there were runs, start none: correct TIDEGATE_LEDGER, or restore a backup by `tidegate ledger restore FILE`"
)
"""What to do where the ledger knows of no run though there were some."""


def no_run(url: str) -> str | None:
    """That the ledger at this URL isn't there, or knows of no run at all, in words; None where it knows of one.

    TIDEGATE_LEDGER may be mistyped, or the ledger moved away. None is made. Raises UnavailableError,
    UnusableLedgerError.
    """
    if not has_tables(url):
        return f"there is no ledger at {redact(url)}: no run has made it, or it was moved away"
    return None if SqlRunLog(url).is_begun() else f"no run has written to {redact(url)} yet"


def require_runs(name: str, url: str) -> None:
    """Raise WrongDefinitionError where the ledger's silence about a subscription would tell nothing."""
    if missing := no_run(url):
        raise WrongDefinitionError(f"{missing} (subscription {name}): {after_no_run(name)}")


def after_no_run(name: str) -> str:
    """What to do where the ledger knows of no run."""
    return f"`tidegate run {name}`, or its DAG; {AFTER_RUNS}"


@contextmanager
def readable_ledger(settings: Settings) -> Iterator[Settings]:
    """These settings, or, where nobody has made the ledger, with an empty one, which is gone afterwards."""
    if has_tables(settings.ledger):
        yield settings
        return
    with TemporaryDirectory() as folder:
        yield replace(settings, ledger=f"sqlite:///{Path(folder) / 'ledger.db'}")
