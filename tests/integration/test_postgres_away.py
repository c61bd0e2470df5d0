"""PostgreSQL is killed around the ledger's effects of each step, and comes back: nothing is lost or doubled."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import pytest
from broker_world import carry_out, in_lake
from by_night import one_in
from postgres import Postgres, short_lived

from tidegate.config.settings import Settings
from tidegate.ledger.sql import SqlLedger
from tidegate.model.errors import UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Ledger
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.effects import Effect, Method, watched

pytestmark = [pytest.mark.broker, pytest.mark.postgres]

RECORDS = 20
SECONDS = 120
STRIKES = {
    "plan": (Ledger.look, Ledger.open),
    "land": (Ledger.batch, Ledger.landed),
    "process": (Ledger.batch, Ledger.start_delivery, Ledger.processed),
    "commit": (Ledger.batch, Ledger.adopt, Ledger.close),
}
STEPS = (*STRIKES, "")
TEMPLATE = "template"


@pytest.fixture(scope="module")
def mortal() -> Iterator[Postgres]:
    """A server of these tests' own, since they kill it."""
    with short_lived() as started:
        SqlLedger(started.create_database(TEMPLATE))
        yield started


@pytest.fixture
def settings(mortal: Postgres, tmp_path: Path) -> Settings:
    url = mortal.create_database(f"ledger_{uuid.uuid4().hex}", like=TEMPLATE)
    return Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "TIDEGATE_LEDGER": url})


@dataclass
class Killer:
    """Kills the server once, before or after the first call of this method of the ledger in a step."""

    server: Postgres
    step: str
    call: Method
    when: str
    now_in: str = ""

    def before(self, effect: Effect) -> None:
        self._strike("before", effect)

    def after(self, effect: Effect) -> None:
        self._strike("after", effect)

    def _strike(self, when: str, effect: Effect) -> None:
        if (when, self.now_in, effect) == (self.when, self.step, Effect.of(self.call)) and self.server.running:
            self.server.kill()


def run(pipeline: Pipeline, killer: Killer) -> None:
    """The four steps, each in its turn, and a look at what is next, as far as they come."""
    killer.now_in = "plan"
    plan = pipeline.plan()
    assert plan.batch is not None
    killer.now_in = "land"
    for member in plan.members:
        pipeline.land(plan.batch.id, member)
    killer.now_in = "process"
    pipeline.process(plan.batch.id)
    killer.now_in = "commit"
    pipeline.settle(plan.batch.id)
    killer.now_in = ""
    pipeline.ledger.look(pipeline.subscription.name)


@pytest.mark.parametrize("step", one_in(4, STRIKES))
def test_the_step_fails_cleanly_and_the_next_runs_finish(
    step: str, mortal: Postgres, topic, produce, open_subscription
) -> None:
    name = topic(partitions=2)
    pipeline = open_subscription(name, members=2, poll_timeout_ms=20_000)
    impatient = replace(pipeline, subscription=replace(pipeline.subscription, poll_timeout_ms=1))
    strikes = [(call, when) for call in STRIKES[step] for when in ("before", "after")]
    for number, (call, when) in enumerate(strikes):
        for partition in (0, 1):
            produce(name, RECORDS, partition)
        killer = Killer(mortal, step, call, when)
        try:
            with pytest.raises(
                UnavailableError,
                match="see that the database runs and answers, and nobody keeps its tables locked, then run",
            ):
                run(watched(pipeline, killer), killer)
            assert not mortal.running, (call, when)
            assert killer.now_in in (step, STEPS[STEPS.index(step) + 1])
        finally:
            mortal.restart()
        everything = (number + 1) * RECORDS
        deadline = monotonic() + SECONDS
        while not _is_settled(pipeline, everything):
            assert monotonic() < deadline, (call, when)
            carry_out(pipeline, impatient.plan())
        assert in_lake(pipeline) == [(partition, offset) for partition in (0, 1) for offset in range(everything)]


def _is_settled(pipeline: Pipeline, end: int) -> bool:
    """No batch is open, and nothing is left to read."""
    name = pipeline.subscription.name
    positions = pipeline.offsets.committed([TopicPartition(name, 0), TopicPartition(name, 1)])
    return pipeline.ledger.look(name).open is None and [at.offset for at in positions.values()] == [end, end]
