"""Long histories keep the promise, whatever producers do to the topic, and a seed's history is always the same."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from by_night import one_in
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation import runs
from simulation.histories import Dangers, history, topic_events
from simulation.script import Begin, Compact, End, Grow, Produce, TopicEvent
from simulation.world import World
from tidegate.dead_letters.lock import HeldRedriveLock, RedriveLock
from tidegate.model.batch import Batch, State
from tidegate.ports import Clock, DeliveryAge, Fence
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps import acknowledge, commit, decide, land, loss, ownership, plan, process
from tidegate.steps.context import Context
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets, _MemoryFence

pytestmark = pytest.mark.simulation

TESTS = Path(__file__).parents[2]
PARTITIONS = st.integers(0, 3)
EVENTS: st.SearchStrategy[TopicEvent] = st.one_of(
    st.builds(Produce, PARTITIONS, st.integers(1, 3)),
    st.builds(Begin, st.tuples(PARTITIONS, PARTITIONS), st.integers(1, 2)),
    st.builds(End, commit=st.booleans()),
    st.builds(Compact, PARTITIONS, st.integers(0, 5)),
    st.builds(Grow),
)


@pytest.mark.parametrize("seed", one_in(5, range(0, 200, 20)))
def test_the_promise_holds_for_these_seeds(seed: int) -> None:
    for each in range(seed, seed + 20):
        found = history(each)
        assert found.violation is None, "\n".join([*found.lines, f"seed {each}: {found.violation}"])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), events=st.lists(EVENTS, max_size=12))
def test_the_promise_holds_for_topics_of_all_kinds(seed: int, events: list[TopicEvent]) -> None:
    found = history(seed, (Grow(), *events), Dangers(losses=0, fenceless=False))
    assert found.violation is None, "\n".join([*found.lines, f"seed {seed}: {found.violation}"])


def test_a_history_replays_exactly() -> None:
    for seed in range(20):
        assert history(seed).lines == history(seed).lines


def test_a_history_replays_exactly_in_another_process() -> None:
    command = [sys.executable, "-m", "simulation", "--seed", "7"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    first, again = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout for _ in range(2)
    )
    assert "seed 7: " in first
    assert first == again


def test_histories_differ_and_run_into_every_kind_of_mishap() -> None:
    missing = ["CRASHES", "can't tell", "ledger is lost", "resets the group", "offsets expire", "finishes late", "pass"]
    missing += ["is renamed", "created again", "its clock is set", "another cluster", "a transaction's end"]
    missing += ["group is another cluster's", "end of a redrive's transaction", "its end is sent once more"]
    for seed, strategy in product(range(150), (None, "dead-letter-queue")):
        told = "\n".join(history(seed, strategy=strategy).lines)
        missing = [each for each in missing if each not in told]
        if not missing:
            return
    pytest.fail(f"no history has {missing}")


def test_topics_have_records_transactions_and_gaps() -> None:
    events = [event for seed in range(50) for event in topic_events(random.Random(seed))]  # noqa: S311 (no secret)
    assert {type(event) for event in events} == {Grow, Produce, Begin, End, Compact}


NOTHING = {
    "crashes": 0,
    "lost": 0,
    "losses": 0,
    "resets": 0,
    "expiries": 0,
    "renames": 0,
    "recreations": 0,
    "elsewhere": 0,
    "acceptances": 0,
    "late": 0,
    "redrives": 0,
    "skew": 0,
    "fenceless": False,
}
FEW = (Grow(), Produce(0, 4))
Patch = Callable[[pytest.MonkeyPatch], None]


def without_topic_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loss, decide, land):
        monkeypatch.setattr(module, "recreated", lambda *_: {})


def without_the_ids_of_what_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decide, land):
        monkeypatch.setattr(module, "recreated", lambda *_: {})


def without_the_ids_of_what_is(step: ModuleType) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(step, "created_again", lambda *_: frozenset())


def without_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "claim_group", lambda *_, **__: False)


def without_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "refuse_other_cluster", lambda *_: None)


def with_what_was_committed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever accepts a cluster goes on with the positions that the ledger has of the other one."""

    def accept_cluster(self: MemoryLedger, subscription: str, group: str, cluster_id: str, _: str) -> None:
        self._writes[subscription] += 1
        self._groups[subscription, group] = cluster_id, 0
        self._topic_ids[subscription].clear()

    monkeypatch.setattr(MemoryLedger, "accept_cluster", accept_cluster)


def with_a_batch_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever accepts a cluster leaves the batch of the other one open."""
    real = ownership.accept_cluster

    def accept_cluster(ctx: Context, by: str) -> Batch | None:
        with pytest.MonkeyPatch.context() as unseen:
            look = ctx.ledger.look
            unseen.setattr(ctx.ledger, "look", lambda name: replace(look(name), open=None))
            return real(ctx, by)

    monkeypatch.setattr(runs, "accept_cluster", accept_cluster)


def with_a_producer_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever commits goes on with the epoch of the one before, so that nothing ends what that one began."""

    @contextmanager
    def fence(self: MemoryOffsets) -> Iterator[Fence]:
        yield _MemoryFence(self, self._newest)

    monkeypatch.setattr(MemoryOffsets, "fence", fence)
    unspent = property(lambda _: frozenset(), lambda *_: None)
    monkeypatch.setattr(MemoryOffsets, "_spent", unspent, raising=False)  # which refuses a second commit


def with_one_fence_for_a_redrive(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RedriveLock.acquire
    held: dict[RedriveLock, tuple[AbstractContextManager[HeldRedriveLock], HeldRedriveLock]] = {}

    @contextmanager
    def take(self: RedriveLock) -> Iterator[HeldRedriveLock]:
        if self not in held:
            context = real(self)
            held[self] = context, context.__enter__()
        yield held[self][1]

    monkeypatch.setattr(RedriveLock, "acquire", take)
    unspent = property(lambda _: frozenset(), lambda *_: None)
    monkeypatch.setattr(MemoryOffsets, "_spent", unspent, raising=False)  # which refuses a second commit


class ByMachine:
    """The port `Ledger`, all of whose times are by the clock of the machine that asks."""

    def __init__(self, ledger: MemoryLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def now(self) -> datetime:
        return self._clock.now()

    def delivery_age(self, batch_id: str, token: str) -> DeliveryAge:
        age, ahead = self._ledger.delivery_age(batch_id, token), self._clock.now() - self._ledger.now()
        return DeliveryAge(age.begun + ahead, age.silent + ahead)


def without_the_ledgers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    real = World.pipeline

    def pipeline(self: World, clock: Clock, run: str) -> Pipeline:
        return replace(real(self, clock, run), ledger=ByMachine(self.ledger, clock))

    monkeypatch.setattr(World, "pipeline", pipeline)


def after(silence: timedelta) -> Patch:
    """A delivery is over after so much silence."""
    return lambda monkeypatch: monkeypatch.setattr(process, "SILENT", silence)


RECREATED = {"recreations": 1, "crashes": 2}
GUARDS: dict[str, tuple[Patch, dict[str, float], str, str]] = {
    "the ids of topics": (without_topic_ids, {"recreations": 1}, "after-processing", "published nowhere"),
    "the ids of what is planned": (without_the_ids_of_what_is_planned, RECREATED, "after-processing", "twice"),
    "the ids of what is committed": (
        without_the_ids_of_what_is(commit),
        RECREATED,
        "after-processing",
        "moved in another topic",
    ),
    "the ids of what is acknowledged": (
        without_the_ids_of_what_is(acknowledge),
        {"recreations": 1},
        "throttled",
        "moved in another topic",
    ),
    "one fence for each transaction": (with_a_producer_that_is_kept, {"late": 2}, "dead-letter-queue", "twice"),
    "one fence for each chunk of a redrive": (
        with_one_fence_for_a_redrive,
        {"redrives": 1, "late": 2},
        "dead-letter-queue",
        "redriven twice",
    ),
    "a fence that ends what a redrive left": (
        with_a_producer_that_is_kept,
        {"redrives": 2, "late": 2},
        "dead-letter-queue",
        "redriven twice",
    ),
    "the cluster that a group is read in": (
        without_clusters,
        {"elsewhere": 1},
        "after-processing",
        "another cluster was read",
    ),
    "what is committed in an accepted cluster": (
        with_what_was_committed_elsewhere,
        {"elsewhere": 1, "acceptances": 1},
        "after-processing",
        "published nowhere",
    ),
    "that no batch of another cluster is open": (
        with_a_batch_of_another_cluster,
        {"elsewhere": 1, "acceptances": 1, "crashes": 2},
        "after-processing",
        "moved in another topic",
    ),
    "whose a group is": (without_claims, {"renames": 2}, "on-receipt", "published nowhere"),
    "that who gives signs of life is alive": (after(timedelta(-1)), {}, "fail", "a sign of life of another"),
    "that who gives no sign of life is dead": (after(timedelta.max), {"crashes": 1}, "dead-letter-queue", "is still"),
    "one clock for the deadline": (
        without_the_ledgers_clock,
        {"skew": 400},
        "after-processing",
        "s after it was begun",
    ),
    "one clock for retries": (without_the_ledgers_clock, {"skew": 400}, "delayed-retry-topic", "before it is due"),
}


@pytest.mark.parametrize("guard", one_in(3, GUARDS))
def test_a_guard_is_seen_to_matter(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without, dangers, strategy, found = GUARDS[guard]

    def violations() -> Iterator[str]:
        tried = (history(seed, FEW, Dangers(**{**NOTHING, **dangers}), strategy) for seed in range(800))
        return (str(each.violation or "") for each in tried)

    assert set(islice(violations(), 30)) == {""}
    without(monkeypatch)
    assert any(found in each for each in violations())


@pytest.mark.nightly
def test_latest_may_pass_what_lies_before_a_rejected_record() -> None:
    """Of a job that rejects the last of its records, and acknowledges none."""
    dangers = Dangers(**{**NOTHING, "redrives": 2, "late": 2})
    histories = (history(seed, FEW, dangers, "dead-letter-queue") for seed in range(600))
    such = ("rejects the last record", "acknowledges nothing more")
    found = next(each for each in histories if all(any(said in line for line in each.lines) for said in such))
    assert found.violation is None, "\n".join(found.lines)


def test_the_ids_of_topics_matter_while_a_batch_is_open_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is deleted, and created again, while a batch is open, or none."""
    without_topic_ids(monkeypatch)
    states = {"open", str(State.PLANNED), str(State.PROCESSING)}
    for seed in range(600):
        found = history(seed, FEW, Dangers(**{**NOTHING, **RECREATED}), "after-processing")
        again = next((line for line in found.lines if "created again" in line), "")
        if found.violation is not None:
            states.discard(again.rpartition(" ")[2])
        if not states:
            break
    assert states == set()


def test_a_violation_comes_with_its_whole_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_is_done", lambda *_: False)
    found = next(each for each in map(history, range(500)) if each.violation is not None)
    assert any(line.startswith("runner") for line in found.lines[:9])
    assert str(found.violation)
    assert history(found.seed).lines == found.lines
