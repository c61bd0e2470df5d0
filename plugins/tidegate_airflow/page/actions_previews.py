"""Previews of actions in the API server: Kafka, ledger and lake are asked, for seconds, and nothing is changed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from threading import BoundedSemaphore
from typing import Any, Final

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate.model.batch import Resolution
from tidegate.model.errors import StaleError, location, message
from tidegate.model.subscription import Subscription
from tidegate.operations.actions.clearing import preview_clear
from tidegate.operations.actions.committing import preview_commit
from tidegate.operations.actions.preview import ActionPreview
from tidegate.operations.actions.redriving import preview_redrive
from tidegate.operations.actions.replaying import preview_of_replay, replay_request
from tidegate.operations.actions.resetting import preview_reset, reset_request
from tidegate.operations.actions.running import preview_drain, preview_run
from tidegate.operations.dead_letters import open_dead_letters
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate_airflow.connections import DatabaseConnections
from tidegate_airflow.rest import airflow_dags
from tidegate_airflow.rest.refused import RefusedError

_TIMEOUT_MS = 10_000  # for a broker to answer while somebody looks at a page
_MOST_LETTERS = 50_000
_AT_ONCE: Final = BoundedSemaphore(4)  # of the API server's threads, which serve all of Airflow's users
_PATIENCE = 5  # seconds


@dataclass(frozen=True)
class Previews:
    """The previews of one subscription's actions, for one request of the user `by`."""

    name: str
    by: str

    @cached_property
    def settings(self) -> Settings:
        """Tidegate's, as the API server's environment has them."""
        return Settings.from_environment(os.environ)

    def preview(self, action: str, params: Mapping[str, Any]) -> ActionPreview:
        """What the action with these params would do now.

        Raises RefusedError for an unknown subscription and while too many previews are made, and what the action would
        raise.
        """
        if not _AT_ONCE.acquire(timeout=_PATIENCE):
            raise RefusedError(503, "too many previews are made at once: try again in some seconds")
        try:
            return self._preview(action, params)
        finally:
            _AT_ONCE.release()

    def _preview(self, action: str, params: Mapping[str, Any]) -> ActionPreview:
        if action == "redrive":
            with open_dead_letters(self._subscription, self.settings, DatabaseConnections()) as letters:
                return preview_redrive(letters, params, self.by, _MOST_LETTERS)[0]
        with open_pipeline(self._subscription, self.settings, DatabaseConnections()) as pipeline:
            return self._of_pipeline(pipeline, action, params)

    def _of_pipeline(self, pipeline: Pipeline, action: str, params: Mapping[str, Any]) -> ActionPreview:
        match action:
            case "clear":
                answer = Resolution(params["answer"])
                return preview_clear(pipeline, answer, params.get("batch"), params.get("note"))
            case "commit":
                return preview_commit(pipeline, params.get("batch"))
            case "reset":
                return preview_reset(pipeline, reset_request(pipeline, params, self.by))
            case "replay":
                return self._replay(pipeline, params)
            case "drain":
                return self._with_runs(preview_drain(pipeline, params.get("runs")))
            case _:
                return self._with_runs(preview_run(pipeline))

    def _replay(self, pipeline: Pipeline, params: Mapping[str, Any]) -> ActionPreview:
        start, end = params["from"], params["to"]
        request = replay_request(start, end, params["output"], self.by, params.get("note") or "")
        return preview_of_replay(pipeline, start, end, request, self.settings.home)

    def _with_runs(self, preview: ActionPreview) -> ActionPreview:
        """With what Airflow knows of the subscription's runs.

        Raises DefinitionError where Airflow makes no DAG of the definition, StaleError while its DAG is paused.
        """
        if wrong := AllDefinitions(self.settings).refused().get(self.name):
            raise DefinitionError(wrong)
        if airflow_dags.is_paused(self.name):
            why = "the DAG is paused, and a run would wait until it isn't: nothing was triggered"
            raise StaleError(message(why, location(subscription=self.name), "unpause it"))
        runs = airflow_dags.runs_under_way(self.name)
        said = [f"Run {run} is under way or queued: it ends first." for run in runs]
        facts = {**preview.facts, "runs": sorted(runs)}
        return replace(preview, facts=facts, consequences=(*said, *preview.consequences))

    @cached_property
    def _subscription(self) -> Subscription:
        found = AllDefinitions(self.settings).load(self.name)
        timeout, commit = (min(each, _TIMEOUT_MS) for each in (found.poll_timeout_ms, found.commit_timeout_ms))
        return replace(found, poll_timeout_ms=timeout, commit_timeout_ms=commit)
