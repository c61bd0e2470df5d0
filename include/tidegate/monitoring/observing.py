"""Looking at subscriptions, and keeping what was seen in the ledger: page, metrics and alerts read it there.

So whoever reads needn't wait for Kafka, and is told how old the answer is.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate.dead_letters.superseded import Superseded
from tidegate.dead_letters.waiting import MOST_SECONDS, left_out_waiting, letters_waiting
from tidegate.kafka.dead_letter_topic import KafkaDeadLetterTopic
from tidegate.ledger.generations import SqlGenerations
from tidegate.ledger.holders import has_tables, orphaned_batches
from tidegate.ledger.observations import Observation, Observations
from tidegate.ledger.redriven import SqlRedrives
from tidegate.ledger.sql import SqlLedger
from tidegate.model.errors import TidegateError, UnusableLedgerError, WrongDefinitionError, first_few
from tidegate.model.subscription import Problem, Subscription
from tidegate.monitoring.health import Finding, Verdict, orphaned
from tidegate.monitoring.status import Status, finding_to_json, outcome_to_json, status_of
from tidegate.ports import Connections
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.looks import in_order
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.runtime.unmade_ledger import no_run, readable_ledger

log = logging.getLogger(__name__)

Refused = Mapping[str, Sequence[Problem]]
"""What keeps definitions from being used, by their subscriptions' names; see `AllDefinitions.refused`."""

_NONE_REFUSED: Refused = MappingProxyType({})
_BATCHES = 20
_PATIENCE_MS = 10_000  # whoever looks wants to know that brokers are away, however long a run would wait for them
_SHORT_MS = 1_000  # brokers that were away a moment ago mustn't keep many others from being looked at


def observe(name: str, settings: Settings, connections: Connections, refused: Refused = _NONE_REFUSED) -> Observation:
    """Look at one subscription and keep what was seen; `refused` as for `status_document`.

    A ledger that nobody has made yet is made, to keep it. Raises UnavailableError or UnusableLedgerError for the
    ledger; that Kafka is away is seen as well.
    """
    return Observations(settings.ledger).note(
        name, status_document(name, settings, connections, _BATCHES, refused=refused)
    )


def observe_all(names: Sequence[str], settings: Settings, connections: Connections) -> Iterator[Observation]:
    """Look at each of these subscriptions as `observe` does, and tell of them in their order."""
    for document in status_documents(names, settings, connections, _BATCHES):
        yield Observations(settings.ledger).note(document["subscription"], document)


def status_documents(
    names: Sequence[str], settings: Settings, connections: Connections, limit: int
) -> Iterator[dict[str, Any]]:
    """The status of each, in their order, as `status_document` has it; several are looked at at once.

    The brokers of a connection that didn't answer have a second for each answer from then on.
    """
    away: set[str] = set()
    refused = AllDefinitions(settings).refused()

    def look(name: str) -> dict[str, Any]:
        document = status_document(name, settings, connections, limit, refused=refused, away=away)
        if document.get("unavailable"):
            away.add(document["connection"])
        return document

    yield from in_order(names, look)


def status_document(
    name: str,
    settings: Settings,
    connections: Connections,
    limit: int,
    *,
    refused: Refused,
    away: Collection[str] = (),
) -> dict[str, Any]:
    """The status as a document; only why and the open batch where the definition, or what it names, can't be used.

    `refused` are definitions that can't be used for more than that: what a definition says by itself is found anyway.
    Brokers have ten seconds for each answer, those of the connections that are `away` one; `poll-timeout.ms` if that is
    shorter. A ledger that nobody has made yet isn't made. Raises UnavailableError, UnusableLedgerError.
    """
    try:
        subscription = _loaded(name, settings, refused)
        patience = _SHORT_MS if subscription.connection in away else _PATIENCE_MS
        hurried = replace(subscription, poll_timeout_ms=min(subscription.poll_timeout_ms, patience))
        with readable_ledger(settings) as readable, open_pipeline(hurried, readable, connections) as pipeline:
            status = status_of(pipeline, limit, no_run(settings.ledger))
            return {**status.to_json(), "dead_letters_waiting": _dead_letters(pipeline, status, readable)}
    except UnusableLedgerError:
        raise
    except DefinitionError as error:
        errors = [problem for problem in error.problems if problem.severity == "error"]
        reason = f"its definition is broken, no DAG runs it: {first_few(errors)}".partition("\n")[0]
        finding = Finding(Verdict.STALLED, reason, None, "correct the file: `tidegate check` lists all that is wrong")
    except WrongDefinitionError as error:
        finding = Finding(Verdict.STALLED, f"no run begins: {error}", None, "correct what it names")
    return {"subscription": name, **finding_to_json(finding), "open": _open_batch(name, settings)}


def _open_batch(name: str, settings: Settings) -> dict[str, Any] | None:
    entries = SqlLedger(settings.ledger).history(name, 1) if has_tables(settings.ledger) else ()
    return next((outcome_to_json(each) for each in entries if each.batch.is_open), None)


def _loaded(name: str, settings: Settings, refused: Refused) -> Subscription:
    subscription = AllDefinitions(settings).load(name)
    if name in refused:
        raise DefinitionError(refused[name])
    return subscription


def _dead_letters(pipeline: Pipeline, status: Status, settings: Settings) -> int | None:
    """Those of the topic that the subscription would write to, whatever its failure strategy; None if not known."""
    topic = pipeline.subscription.dead_letter_queue.of(pipeline.subscription.name)
    if status.facts.unavailable:
        return None
    try:
        redrives = SqlRedrives(settings.ledger)
        waiting = letters_waiting(topic, pipeline.source, redrives, pipeline.clock)
        if not waiting:
            return 0
        superseded = Superseded(SqlGenerations(settings.ledger).reprocessed(pipeline.subscription.name))
        if superseded.is_empty and not pipeline.ledger.replays(pipeline.subscription.name):
            return waiting
        letters = KafkaDeadLetterTopic(pipeline.source, topic, MOST_SECONDS)
        return waiting - left_out_waiting(letters, redrives, superseded)
    except TidegateError as error:
        log.warning("dead letters can't be counted: %s", error)
        return None


def orphans(names: Sequence[str], settings: Settings) -> Iterator[dict[str, Any]]:
    """A document for each open batch of which there is no definition any more."""
    for batch in orphaned_batches(settings.ledger, names):
        yield {"subscription": batch.subscription, **finding_to_json(orphaned(batch)), "orphan": batch.id}
