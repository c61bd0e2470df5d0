"""What waits in Airflow's triggerer, so that no worker does.

A trigger holds names and offsets alone: definition, connection and settings are looked up where it runs. What comes of
it is a hint: the run plans anew.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from tidegate.model.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.runtime.backlog import Waiting
    from tidegate.runtime.record_schedule import IsRunning
    from tidegate.steps.await_records import Awaited

Positions = Mapping[str, Mapping[str, int | None]]
"""The next offsets of partitions by topic and number, as JSON has them; None where there is none."""


class RecordsTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow's types aren't followed
    """Fires once there may be more to read than a plan has seen, or at the deadline of its wait.

    `positions` are the group's. `deadline` is an ISO time by the ledger's clock; whoever takes over keeps it.
    """

    def __init__(self, *, subscription: str, positions: Mapping[str, Mapping[str, int | None]], deadline: str) -> None:
        super().__init__()
        self.subscription = subscription
        self.positions = positions
        self.deadline = deadline

    @classmethod
    def of(cls, subscription: str, awaited: "Awaited") -> "RecordsTrigger":
        """The trigger of a wait."""
        positions: dict[str, dict[str, int | None]] = {}
        for at, offset in awaited.positions.items():
            positions.setdefault(at.topic, {})[str(at.partition)] = offset
        return cls(subscription=subscription, positions=positions, deadline=awaited.deadline.isoformat())

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and what another triggerer makes it of."""
        given = {"subscription": self.subscription, "positions": self.positions, "deadline": self.deadline}
        return f"{__name__}.{type(self).__name__}", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; the event has the deadline, and as `unable` why that can't be done here, or None."""
        unable = None
        wait = await asyncio.to_thread(_wait, self.subscription, self.positions, self.deadline)
        try:
            has_news = await wait
        except TidegateError as error:
            self.log.warning("%s", error)
            unable = str(error)
        else:
            self.log.info("%s", "there may be more to read" if has_news else "nothing to read until the poll timeout")
        yield TriggerEvent({"deadline": self.deadline, "unable": unable})


class RecordScheduleTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow's types aren't followed
    """Fires each time that a run of a subscription is due by what waits, and none is under way."""

    def __init__(self, *, subscription: str, records: int | None, or_after_ms: int | None) -> None:
        super().__init__()
        self.subscription = subscription
        self.records = records
        self.or_after_ms = or_after_ms

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and what a triggerer makes it of."""
        given = {"subscription": self.subscription, "records": self.records, "or_after_ms": self.or_after_ms}
        return f"{__name__}.{type(self).__name__}", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch what waits, for ever; an event says how much, and for how long, in ms, the first of it has."""
        due = await asyncio.to_thread(_due_runs, self.subscription, self.records, self.or_after_ms, self._is_running)
        async for waiting in due:
            waited = round(waiting.seconds * 1000) if math.isfinite(waiting.seconds) else None
            yield TriggerEvent({"records": waiting.records, "waited.ms": waited})

    async def _is_running(self) -> bool:
        states = ["queued", "running"]
        count = await asyncio.to_thread(RuntimeTaskInstance.get_dr_count, dag_id=self.subscription, states=states)
        return int(count) > 0


def _due_runs(
    subscription: str, records: int | None, or_after_ms: int | None, is_running: "IsRunning"
) -> "AsyncIterator[Waiting]":
    """The runs that are due; made in a thread, as `_wait` is."""
    from tidegate.model.subscription import RecordSchedule  # noqa: PLC0415 (see above)
    from tidegate.runtime.record_schedule import due_runs  # noqa: PLC0415 (see above)
    from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

    return due_runs(subscription, RecordSchedule(records, or_after_ms), AirflowConnections(), is_running)


def _wait(subscription: str, positions: Positions, deadline: str) -> Awaitable[bool]:
    """The wait; made in a thread, because the imports would keep all of the triggerer from going on."""
    from tidegate.model.offsets import TopicPartition  # noqa: PLC0415 (see above)
    from tidegate.runtime.waiting import await_news  # noqa: PLC0415 (see above)
    from tidegate.steps.await_records import Awaited  # noqa: PLC0415 (see above)
    from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

    offsets = {
        TopicPartition(topic, int(number)): offset
        for topic, numbers in positions.items()
        for number, offset in numbers.items()
    }
    awaited = Awaited(offsets, datetime.fromisoformat(deadline))
    return await_news(subscription, awaited, AirflowConnections())
