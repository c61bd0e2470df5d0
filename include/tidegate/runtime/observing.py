"""Looking at subscriptions, and keeping what was seen in the ledger: page, metrics and alerts read it there.

So whoever reads needn't wait for Kafka, and is told how old the answer is.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings, redact
from tidegate.dead_letters.waiting import letters_waiting
from tidegate.ledger.holders import has_tables, orphaned_batches
from tidegate.ledger.observations import Observation, Observations
from tidegate.ledger.redriven import SqlRedrives
from tidegate.ledger.run_log import SqlRunLog
from tidegate.model.errors import TidegateError, UnusableLedgerError, WrongDefinitionError, first_few
from tidegate.ports import Connections
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.health import Finding, Verdict, orphaned
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.runtime.status import Status, finding_to_json, status_of

log = logging.getLogger(__name__)

_BATCHES = 20
_PATIENCE_MS = 10_000  # one whose brokers are away mustn't keep many others from being looked at


def observe(name: str, settings: Settings, connections: Connections) -> Observation:
    """Look at one subscription and keep what was seen.

    A ledger that nobody has made yet is made, to keep it. Raises UnavailableError or UnusableLedgerError for the
    ledger; that Kafka is away is seen as well.
    """
    document = status_document(name, settings, connections, _BATCHES, _PATIENCE_MS)
    return Observations(settings.ledger).note(name, document)


def observe_all(settings: Settings, connections: Connections) -> Iterator[Observation]:
    """Look at each subscription that has a definition, one after the other, as `observe` does."""
    return (observe(name, settings, connections) for name in AllDefinitions(settings).names())


def status_document(
    name: str, settings: Settings, connections: Connections, limit: int, patience_ms: int | None = None
) -> dict[str, Any]:
    """The status as a document; without a group where the definition, or what it names, can't be used.

    Brokers have `poll-timeout.ms` for each answer, and no longer than `patience_ms` where that is given. A ledger that
    nobody has made yet isn't made. Raises UnavailableError, UnusableLedgerError.
    """
    try:
        subscription = AllDefinitions(settings).load(name)
        longest = min(subscription.poll_timeout_ms, patience_ms or subscription.poll_timeout_ms)
        hurried = replace(subscription, poll_timeout_ms=longest)
        with _with_ledger(settings) as readable, open_pipeline(hurried, readable, connections) as pipeline:
            status = status_of(pipeline, limit, _no_run(settings, readable))
            return {**status.to_json(), "dead_letters_waiting": _dead_letters(pipeline, status, readable)}
    except UnusableLedgerError:
        raise
    except DefinitionError as error:
        errors = [problem for problem in error.problems if problem.severity == "error"]
        reason = f"its definition is broken, no run begins: {first_few(errors)}".partition("\n")[0]
        finding = Finding(Verdict.STALLED, reason, None, "correct the file: `tidegate check` lists all that is wrong")
    except WrongDefinitionError as error:
        finding = Finding(Verdict.STALLED, f"no run begins: {error}", None, "correct what it names")
    return {"subscription": name, **finding_to_json(finding)}


def _no_run(settings: Settings, readable: Settings) -> str | None:
    """Where the ledger knows of no run at all: that it does, or isn't there; TIDEGATE_LEDGER may be mistyped."""
    if readable is not settings:
        return f"there is no ledger at {redact(settings.ledger)} yet: no run has made it"
    return None if SqlRunLog(settings.ledger).is_begun() else f"no run has written to {redact(settings.ledger)} yet"


@contextmanager
def _with_ledger(settings: Settings) -> Iterator[Settings]:
    """These settings, or, where nobody has made the ledger, with an empty one, which is gone afterwards."""
    if has_tables(settings.ledger):
        yield settings
        return
    with TemporaryDirectory() as folder:
        yield replace(settings, ledger=f"sqlite:///{Path(folder) / 'ledger.db'}")


def _dead_letters(pipeline: Pipeline, status: Status, settings: Settings) -> int | None:
    """Those of the topic that the subscription would write to, whatever its failure strategy; None if not known."""
    topic = pipeline.subscription.dead_letter_queue.of(pipeline.subscription.name)
    if status.unavailable:
        return None
    try:
        return letters_waiting(topic, pipeline.source, SqlRedrives(settings.ledger), pipeline.clock)
    except TidegateError as error:
        log.warning("dead letters can't be counted: %s", error)
        return None


def orphans(names: Sequence[str], settings: Settings) -> Iterator[dict[str, Any]]:
    """A document for each open batch of which there is no definition any more."""
    for batch in orphaned_batches(settings.ledger, names):
        yield {"subscription": batch.subscription, **finding_to_json(orphaned(batch)), "orphan": batch.id}
