"""What there is to show of one subscription, as the ledger and its definition tell it: Kafka isn't asked here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from tidegate.config.reading import Reading
from tidegate.config.settings import Settings
from tidegate.ledger.batch_record import BatchRecord, batch_record
from tidegate.ledger.holders import is_made
from tidegate.ledger.observations import LagSample, Observation, Observations
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import State
from tidegate.model.subscription import Problem, Subscription
from tidegate.monitoring.overview import Standing
from tidegate.monitoring.trend import Trend, trend
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.page.actions_forms import ACTIONS, Action
from tidegate_airflow.page.plot import Plot, plot
from tidegate_airflow.rest.airflow_dags import NO_DAG, conditions

_TREND = timedelta(days=1)
_PARTITIONS = 10  # shown
_STEPS: Mapping[State, str] = {
    State.PLANNED: "land: its records are read from Kafka",
    State.LANDED: "process: it has landed and waits for its delivery",
    State.PROCESSING: "process: a delivery is under way",
    State.FAILED: "process: its last delivery failed",
    State.HELD: "process: it waits for a person",
    State.PROCESSED: "commit: its output is to be published",
    State.DISCARDING: "commit: nothing of it is published",
    State.PUBLISHED: "commit: its output is published",
}


@dataclass(frozen=True)
class Shown:
    """One subscription for one request."""

    standing: Standing
    settings: Settings
    now: datetime

    @property
    def name(self) -> str:
        """The subscription's, which is its DAG's."""
        return self.standing.name

    @property
    def dag(self) -> str:
        """`paused`, or `no DAG`, as Airflow's database has it; empty for one that may run, and without a definition."""
        return "" if self.standing.orphan else self._condition

    @property
    def has_dag(self) -> bool:
        """Whether Airflow has its DAG."""
        return self._condition != NO_DAG

    @property
    def is_usable(self) -> bool:
        """Whether its definition has no error of its own."""
        return self.reading is not None and self.reading.subscription is not None

    @property
    def actions(self) -> list[Action]:
        """Those that can be carried out: none without a right definition, and none that are runs of a missing DAG."""
        return [each for each in ACTIONS.values() if self.is_usable and (each.dag_id is not None or self.has_dag)]

    @cached_property
    def reading(self) -> Reading | None:
        """What its definition says; None without one."""
        return AllDefinitions(self.settings).reading(self.name)

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong with its definition, also what it has in common with others, as `tidegate check` says."""
        if self.reading is None:
            return []
        files = {str(self.reading.file), str(self.reading.defaults.file)}
        return [each for each in AllDefinitions(self.settings).at_hand().problems if each.file in files]

    @property
    def subscription(self) -> Subscription | None:
        """Its values, as far as they can be made of the definition."""
        return self.reading.draft if self.reading else None

    @cached_property
    def observation(self) -> Observation | None:
        """What was last seen; None if nobody has looked."""
        return self._observations.of(self.name) if self._observations else None

    @property
    def document(self) -> Mapping[str, Any]:
        """What `tidegate status --json` would have printed then; empty if nobody has looked."""
        return self.observation.document if self.observation else {}

    @cached_property
    def samples(self) -> list[LagSample]:
        """The lag of a day, the oldest first."""
        return self._observations.samples(self.name, self.now - _TREND) if self._observations else []

    @property
    def trend(self) -> Trend:
        """Where the lag is heading."""
        return trend(self.samples)

    @property
    def plot(self) -> Plot | None:
        """The lag of a day."""
        return plot(self.samples)

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """Those that lag the most, so many at most."""
        return self._own_positions[:_PARTITIONS]

    @property
    def more_partitions(self) -> int:
        """How many there are beside them."""
        return len(self._own_positions) - len(self.partitions)

    @property
    def lost_partitions(self) -> str:
        """Those whose records are gone, as the form of a reset takes them."""
        return " ".join(self.document.get("lost_partitions", ()))

    @property
    def retries(self) -> list[dict[str, Any]]:
        """What waits in its retry topics."""
        return [each for each in self._positions if each["topic"] in self._retry_topics]

    @cached_property
    def open(self) -> BatchRecord | None:
        """The open batch with its deliveries."""
        entry = self.standing.entry.open
        return None if entry is None else batch_record(self.settings.ledger, entry.batch.id)

    @property
    def step(self) -> str:
        """At which step the open batch is."""
        return _STEPS.get(self.open.batch.state, "") if self.open else ""

    @cached_property
    def tries(self) -> int:
        """How many deliveries of the open batch count towards the limit."""
        return SqlLedger(self.settings.ledger).tries(self.open.batch.id).counted if self.open else 0

    @property
    def most_tries(self) -> int | None:
        """The limit; None where the definition doesn't tell."""
        return self.subscription.max_retries + 1 if self.subscription else None

    @property
    def deadline(self) -> datetime | None:
        """Until when the delivery that is under way may take; None without one."""
        record, subscription = self.open, self.subscription
        if record is None or subscription is None or record.batch.state is not State.PROCESSING:
            return None
        if not record.deliveries or not record.batch.commit_policy.enforces_deadline:
            return None
        return record.deliveries[-1].started_at + timedelta(milliseconds=subscription.consumer.max_poll_interval_ms)

    @cached_property
    def _condition(self) -> str:
        return conditions({self.name}).get(self.name, "")

    @cached_property
    def _observations(self) -> Observations | None:
        return Observations(self.settings.ledger) if is_made(self.settings.ledger) else None

    @property
    def _retry_topics(self) -> tuple[str, ...]:
        return self.subscription.retry_topics if self.subscription else ()

    @property
    def _positions(self) -> list[dict[str, Any]]:
        return sorted(
            self.document.get("positions", ()), key=lambda each: (-each["lag"], each["topic"], each["partition"])
        )

    @property
    def _own_positions(self) -> list[dict[str, Any]]:
        return [each for each in self._positions if each["topic"] not in self._retry_topics]
