"""Subscribe, change and unsubscribe: what the routes do, whichever words they are asked in."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.checks.other_dags import NAME_OF_OTHER_DAG
from tidegate.checks.pools import POOL, no_pool
from tidegate.config.reading import NAME, NAME_IN_WORDS, DefinitionError
from tidegate.config.settings import Settings
from tidegate.ledger.holders import is_made
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, State
from tidegate.model.errors import StaleError, location, message
from tidegate.model.subscription import Subscription
from tidegate.ports import StoredDefinition
from tidegate.runtime.definitions import AllDefinitions
from tidegate.steps.ownership import needed_to_end
from tidegate_airflow.dag_factory import subscription_dag
from tidegate_airflow.other_dags import other_dags
from tidegate_airflow.pools import pool_names
from tidegate_airflow.rest import airflow_dags
from tidegate_airflow.rest.refused import RefusedError

DRAIN_SECONDS = 20
"""As long as unsubscribing waits for the open batch, as in Queue-Over-Http."""
_LOOK_SECONDS = 0.25
_SHOWN = 200  # characters of a name that is refused
_OF_FILES = {
    ("processing", "job"): "a job of its own",
    ("airflow", "on_failure_callback"): "a callback",
    ("airflow", "on_success_callback"): "a callback",
    ("alerts", "notify"): "a notifier",
}
"""The properties that name programs, and what each names."""
_UNUSABLE = "the definition can't be used"


@dataclass(frozen=True)
class Subscribing:
    """The stored definitions of an installation, for one request of the user `by`."""

    settings: Settings
    by: str

    @cached_property
    def definitions(self) -> AllDefinitions:
        """All of the installation's."""
        return AllDefinitions(self.settings)

    @cached_property
    def _ledger(self) -> SqlLedger:
        return SqlLedger(self.settings.ledger)

    @cached_property
    def _run_log(self) -> SqlRunLog:
        return SqlRunLog(self.settings.ledger)

    def find(self, name: str) -> StoredDefinition:
        """The stored definition of this name. Raises RefusedError if there is none."""
        found = self.definitions.find(name)
        if found is None:
            elsewhere = ": it is in a file, change that" if self.definitions.is_overridden(name) else ""
            raise RefusedError(404, f"there is no subscription {name} that was made by REST{elsewhere}")
        return found

    def group_of(self, name: str) -> str | None:
        """The consumer group of a stored definition. Raises RefusedError if there is no such definition."""
        draft = self.definitions.reading_of_stored(self.find(name)).draft
        return None if draft is None else draft.consumer.group_id

    def used(self) -> tuple[StoredDefinition, ...]:
        """The stored definitions, without those in whose place a file counts."""
        return tuple(each for each in self.definitions.stored() if not self.definitions.is_overridden(each.name))

    def add(self, name: str, document: Mapping[str, Any], asked: Mapping[str, Any]) -> StoredDefinition:
        """Store a new definition. Raises StaleError if it isn't new.

        Raises RefusedError for one that can't be used, or by which the batch that an earlier one left open can't end.
        """
        subscription, text = self._checked(name, document)
        self._finish_draining(name)
        if not is_made(self.settings.ledger):
            self.settings.make_home()
        self._refuse_stranding(subscription)
        stored = self.definitions.store.add(name, text, asked, self.by)
        self._appear(name, "subscribed")
        return stored

    def replace(self, name: str, document: Mapping[str, Any], revision: int) -> StoredDefinition:
        """Store another text in the place of a revision.

        What is draining is changed only where its open batch can't end otherwise, and drains on. Raises RefusedError if
        the revision isn't the newest, or the open batch couldn't end by this text.
        """
        if self.find(name).is_draining and not self._needed(self._open_batch(name)):
            raise _draining(name, "unsubscribe it again, which says what it waits for, and put it once it is gone")
        subscription, text = self._checked(name, document)
        self._refuse_stranding(subscription)
        try:
            stored = self.definitions.store.replace(name, text, {}, self.by, revision)
        except StaleError as error:
            raise RefusedError(412, str(error)) from None
        self._appear(name, "changed")
        return stored

    def unsubscribe(self, name: str) -> str:
        """Begin no new batch, wait for the open one and for runs under way, then remove the definition.

        A definition in whose place a file counts is removed at once: batch and runs are the file's.
        Returns what is waited for still when the time is over, or at once where that is a person; the definition then
        drains on, and goes when this is called again. An empty text: it is gone.
        """
        self.find(name)
        store = self.definitions.store
        store.drain(name, self.by)
        airflow_dags.note(name, "unsubscribed", self.by)
        airflow_dags.parse_soon()
        if self.definitions.is_overridden(name):
            store.remove(name, self.by)
            return ""
        deadline = time.monotonic() + DRAIN_SECONDS
        triggered = False
        while waiting_for := self._withdraw(name, batch := self._open_batch(name)):
            if time.monotonic() >= deadline or (batch is not None and self._first(batch)):
                return waiting_for
            if not triggered and not airflow_dags.runs_under_way(name):
                airflow_dags.trigger(name, self.by)
                triggered = True
            time.sleep(_LOOK_SECONDS)
        store.remove(name, self.by)
        airflow_dags.parse_soon()
        return ""

    def broken(self) -> frozenset[str]:
        """The names of definitions that can't be used."""
        usable = {each.name for each in self.definitions.report().subscriptions}
        return frozenset(self.definitions.names()) - usable

    def state(self, name: str) -> dict[str, Any]:
        """How a subscription stands: its open batch and how its last run ended, each None where there is none."""
        batch = self._open_batch(name)
        last = self._run_log.last_run(name)
        return {
            "batch": None if batch is None else {"id": batch.id, "state": batch.condition},
            "last_run": None
            if last is None
            else {"ended_at": last.ended_at.isoformat(), "said": last.said, "error": last.error},
        }

    def _checked(self, name: str, document: Mapping[str, Any]) -> tuple[Subscription, str]:
        """The subscription, and the text to store. Raises RefusedError, with the problems."""
        if not NAME.fullmatch(name):
            raise RefusedError(422, f"{name[:_SHOWN]!r} can't be a subscription's name: write {NAME_IN_WORDS}")
        if named := _named_programs(document):
            raise RefusedError(422, _UNUSABLE, named)
        if self.definitions.is_overridden(name):
            raise RefusedError(409, f"{name} is the name of a definition in a file: take another name")
        if other_dags([name]):
            raise RefusedError(409, f"{name} {NAME_OF_OTHER_DAG}")
        text = json.dumps(document, ensure_ascii=False)
        try:
            subscription = self.definitions.examined(name, text)
            subscription_dag(subscription, self.settings)
        except DefinitionError as error:
            errors = [each for each in error.problems if each.severity == "error"]
            problems = [{"property": each.property, "message": each.message} for each in errors]
            raise RefusedError(422, _UNUSABLE, problems) from None
        pool = subscription.airflow.pool
        if pool is not None and pool not in pool_names():
            raise RefusedError(422, _UNUSABLE, [{"property": POOL, "message": no_pool(pool)}])
        return subscription, text

    def _refuse_stranding(self, subscription: Subscription) -> None:
        """Raises RefusedError if a batch is open that couldn't end by this definition."""
        batch = self._open_batch(subscription.name)
        if batch is not None and (needed := needed_to_end(batch, subscription)):
            why = f"a batch of group {batch.group} is open ({batch.condition}) and needs {needed}: nothing was changed"
            remedy = f"put the definition with {needed} until that batch has ended, by {batch.how_to_end}"
            raise RefusedError(409, message(why, batch, remedy))

    def _needed(self, batch: Batch | None) -> str:
        """What the stored definition is to say for its open batch to end, and doesn't; empty for nothing."""
        if batch is None:
            return ""
        draft = self.definitions.reading_of_stored(self.find(batch.subscription)).draft
        return "" if draft is None else needed_to_end(batch, draft)

    def _first(self, batch: Batch) -> str:
        """What a person is to do before unsubscribing again helps; empty for nothing."""
        name = batch.subscription
        if needed := self._needed(batch):
            return f": put the definition with {needed} first, and it drains on"
        if batch.state is State.HELD:
            return f": clear it first, by `tidegate clear {name}` or on its page"
        return f": commit it first, by `tidegate commit {name}` or on its page" if batch.awaits_commit_by_hand else ""

    def _appear(self, name: str, what: str) -> None:
        airflow_dags.note(name, what, self.by)
        airflow_dags.appear(name)

    def _finish_draining(self, name: str) -> None:
        """Remove a definition that was unsubscribed and has ended since, so that its name is free.

        Raises RefusedError for one that hasn't ended.
        """
        found = self.definitions.find(name)
        if found is None or not found.is_draining:
            return
        if waiting_for := self._withdraw(name, self._open_batch(name)):
            raise _draining(name, f"try again once this has ended: {waiting_for}")
        self.definitions.store.remove(name, self.by)

    def _withdraw(self, name: str, batch: Batch | None) -> str:
        """Withdraw the DAG, unless something is under way: that, then."""
        runs = airflow_dags.runs_under_way(name) if batch else airflow_dags.withdraw(name)
        waiting = [f"batch {batch.id} is {batch.condition}{self._first(batch)}"] if batch else []
        waiting += [f"run {run} is under way" for run in runs]
        if waiting and airflow_dags.is_paused(name):
            waiting.append("the DAG is paused: unpause it")
        return "; ".join(waiting)

    def _open_batch(self, name: str) -> Batch | None:
        return self._ledger.look(name).open


def _draining(name: str, remedy: str) -> RefusedError:
    why = f"subscription {name} was unsubscribed and is draining: nothing was changed"
    return RefusedError(409, message(why, location(subscription=name), remedy))


def _named_programs(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """A problem for each program that the document names, which only a file may."""
    return [
        {"property": f"{section}.{name}", "message": f"only a definition in a file can name {what}"}
        for (section, name), what in _OF_FILES.items()
        if isinstance(given := document.get(section), dict) and given.get(name) is not None
    ]
