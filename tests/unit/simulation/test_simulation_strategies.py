"""Each strategy keeps its own promise under every schedule within small bounds, and would be caught breaking it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from by_night import one_in

from simulation import explorations, spark
from simulation.bounds import Bounds, Setting
from simulation.exploration import Exploration
from simulation.explorations import STRATEGIES, STRATEGIES_TABLES
from simulation.histories import history
from simulation.promises import ENDS, ORDERS
from simulation.strategies import NAMES
from simulation.violation import ViolationError
from simulation.world import World
from tidegate.model.acknowledged import Acknowledged
from tidegate.model.batch import Batch, Resolution
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, CommitStrategy, Progress
from tidegate.model.failure_policy import FAILURE_POLICIES
from tidegate.steps import commit, plan, process, records_to_produce
from tidegate.steps.acknowledge import Acknowledging, AckReader
from tidegate.steps.act import Changed, Idle, Plan
from tidegate.steps.context import Context
from tidegate.steps.decide import Action, Hold
from tidegate.steps.observe import Observation
from tidegate.strategies.failure.fail import Fail
from tidegate.strategies.failure.ignore import Ignore
from tidegate.strategies.failure.strategy import AtLimit
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets

pytestmark = pytest.mark.simulation

Patch = Callable[[pytest.MonkeyPatch], None]


def test_each_strategy_has_a_promise_of_its_own() -> None:
    """By name, not by policy: what a test takes out of a policy may not be taken out of its promise as well."""
    acknowledging = {name for name, policy in COMMIT_POLICIES.items() if policy.commits_acknowledged}
    assert set(ORDERS) == set(COMMIT_POLICIES), "add an Order to tests/simulation/promises.py"
    assert set(ENDS) == set(FAILURE_POLICIES), "add Ends to tests/simulation/promises.py"
    assert set(spark.PASSED) == acknowledging, "add what it passes to tests/simulation/spark.py"


@pytest.mark.parametrize("name", one_in(6, STRATEGIES))
def test_every_schedule_keeps_the_promise_of_the_strategy(name: str) -> None:
    assert Exploration(*STRATEGIES[name]).explore().ends > 1


@pytest.mark.parametrize("name", one_in(6, STRATEGIES_TABLES))
def test_every_schedule_keeps_it_where_batches_are_published_by_a_tables_log(name: str) -> None:
    assert Exploration(*STRATEGIES_TABLES[name]).explore().ends > 1


@pytest.mark.parametrize("name", one_in(2, NAMES))
def test_long_histories_keep_the_promise_of_the_strategy(name: str) -> None:
    for seed in range(12):
        found = history(seed, strategy=name)
        assert found.violation is None, "\n".join([*found.lines, f"seed {seed}: {found.violation}"])


def at(owner: Any, name: str, value: object) -> Patch:
    """Another value in the place of a rule."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def policy(strategy: CommitStrategy, **settings: Any) -> Patch:
    """Another policy under the name of a strategy."""
    other = replace(COMMIT_POLICIES[strategy], **settings)
    return lambda monkeypatch: monkeypatch.setitem(COMMIT_POLICIES, strategy, other)  # type: ignore[arg-type]


def outside(*, after: bool) -> Patch:
    """Dead letters that are produced before or after the transaction that commits."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        real = commit._commit

        def in_two(ctx: Context, batch: Batch, fence: Any, outgoing: Any, positions: Any) -> None:
            if not after:
                fence.commit({}, "", outgoing=outgoing)
            real(ctx, batch, fence, (), positions)
            if after:
                fence.commit({}, "", outgoing=outgoing)

        monkeypatch.setattr(commit, "_commit", in_two)
        unspent = property(lambda _: frozenset(), lambda *_: None)
        monkeypatch.setattr(MemoryOffsets, "_spent", unspent, raising=False)  # which refuses a second commit

    return patch


def too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix with one record that isn't acknowledged."""
    real = Acknowledged.prefix
    monkeypatch.setattr(Acknowledged, "prefix", lambda self, within: min(within.end, real(self, within) + 1))


def whatever_was_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job rejected leaves with the batch that it was handed with, wherever that ends."""
    real = commit.outgoing

    def outgoing(ctx: Context, batch: Batch, stands: Any) -> Any:
        return real(ctx, replace(batch, ranges=tuple(replace(r, end=r.end + 9) for r in batch.ranges)), stands)

    monkeypatch.setattr(commit, "outgoing", outgoing)


def whole_though_acknowledged_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that ends where it was planned to, and a job that withholds nothing."""
    monkeypatch.setattr(Acknowledging, "settled", lambda *_: ())
    monkeypatch.setitem(spark.PASSED, "throttled", lambda handed, _: handed)


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped batch that goes on by itself."""
    real = plan.act

    def act(action: Action, ctx: Context, seen: Observation) -> Plan | Changed | Idle:
        if isinstance(action, Hold) and action.batch.resolution is Resolution.STOP:
            return Changed(str(ctx.ledger.resolve(action.batch.id, Resolution.REDELIVER)))
        return real(action, ctx, seen)

    monkeypatch.setattr(plan, "act", act)
    monkeypatch.setattr(process, "_check_limit", lambda *_: None)


def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are to commit nothing, on the group's own offsets."""
    real = World.pipeline
    monkeypatch.setattr(World, "pipeline", lambda self, *given: replace(real(self, *given), offsets=self.offsets))


GIVES_UP = AtLimit(Resolution.SKIP, "given up")
FAILS = Bounds(preemptions=0, crashes=0, failures=1)
CRASHES = Bounds(preemptions=0, crashes=1, failures=1)
PLAIN = Bounds(preemptions=0, crashes=1)
TWO_FAIL = Bounds(preemptions=0, crashes=0, failures=2)
LEAVING = (
    ("dead-letter-queue", explorations.THROTTLED_DEAD_LETTERS),
    ("delayed-retry-topic", explorations.THROTTLED_RETRIED),
)
MUTATIONS: list[tuple[str, Patch, Setting, Bounds, str]] = [
    (
        "after-processing commits before it publishes",
        policy("after-processing", commit_at=CommitPoint.LANDED),
        explorations.PLAIN,
        PLAIN,
        "published nowhere",
    ),
    (
        "on-next-poll commits what has landed",
        policy("on-next-poll", commit_at=CommitPoint.LANDED),
        explorations.ON_NEXT_POLL,
        PLAIN,
        "published nowhere",
    ),
    (
        "dead letters before the transaction",
        outside(after=False),
        explorations.DEAD_LETTERS,
        CRASHES,
        "left before a commit had passed",
    ),
    (
        "dead letters after the transaction",
        outside(after=True),
        explorations.DEAD_LETTERS,
        FAILS,
        "published nowhere",
    ),
    (
        "no dead letters",
        at(commit, "outgoing", lambda *_: ()),
        explorations.DEAD_LETTERS,
        FAILS,
        "published nowhere",
    ),
    (
        "no dead letters without a fence",
        at(commit, "outgoing", lambda *_: ()),
        explorations.DEAD_LETTERS_FENCELESS,
        FAILS,
        "published nowhere",
    ),
    (
        "no dead letters on receipt",
        at(commit, "outgoing", lambda *_: ()),
        explorations.ON_RECEIPT_DEAD_LETTERS,
        FAILS,
        "published nowhere",
    ),
    (
        "throttled commits what latest would",
        policy("throttled", progress=Progress.HIGHEST_ACK),
        explorations.THROTTLED,
        FAILS,
        "published nowhere",
    ),
    ("a prefix that is one record too long", too_far, explorations.THROTTLED, FAILS, "published nowhere"),
    (
        "latest passes what nobody acknowledged",
        at(Acknowledged, "latest", lambda _, within: within.end),
        explorations.LATEST,
        FAILS,
        "published nowhere",
    ),
    (
        "all of a batch that was acknowledged in part",
        whole_though_acknowledged_in_part,
        explorations.THROTTLED,
        FAILS,
        "published nowhere",
    ),
    (
        "what is committed is delivered again",
        at(Acknowledging, "begin", lambda self: self._batch),
        explorations.THROTTLED,
        CRASHES,
        "hands on|handed on",
    ),
    *(
        (
            f"what a dead job acknowledged is delivered again, {name}",
            at(AckReader, "take_of_batch", lambda _: None),
            setting,
            CRASHES,
            "had been acknowledged",
        )
        for name, setting in (("throttled", explorations.THROTTLED), ("latest", explorations.LATEST))
    ),
    *(
        (
            f"what was rejected behind a gap leaves at once, {name}",
            whatever_was_rejected,
            setting,
            TWO_FAIL,
            "left before",
        )
        for name, setting in LEAVING
    ),
    *(
        (
            f"what was acknowledged leaves at the limit, {name}",
            at(records_to_produce, "_acknowledged", lambda *_: {}),
            setting,
            TWO_FAIL,
            "had been acknowledged",
        )
        for name, setting in LEAVING
    ),
    ("no retries", at(commit, "outgoing", lambda *_: ()), explorations.RETRIED, FAILS, "published nowhere"),
    (
        "retries before the transaction",
        outside(after=False),
        explorations.RETRIED,
        CRASHES,
        "left before a commit had passed",
    ),
    ("retries after the transaction", outside(after=True), explorations.RETRIED, FAILS, "published nowhere"),
    (
        "offsets_committed forgotten",
        at(MemoryLedger, "received", MemoryLedger.batch),
        explorations.ON_RECEIPT,
        FAILS,
        "is still landed",
    ),
    (
        "what the job rejected is published though the strategy is fail",
        at(Fail, "judge", Ignore.judge),
        explorations.CLEARED,
        FAILS,
        "had been rejected",
    ),
    (
        "a batch that is given up though the strategy is fail",
        at(Fail, "at_limit", lambda *_: GIVES_UP),
        explorations.CLEARED,
        FAILS,
        "nobody said so",
    ),
    (
        "a stopped batch that goes on by itself",
        without_waiting,
        replace(explorations.CLEARED, person=None),
        FAILS,
        "nobody had cleared it",
    ),
    ("ignore on the group's own offsets", kept, explorations.IGNORE, FAILS, "the group was moved"),
]


@pytest.mark.parametrize(
    ("patch", "setting", "bounds", "found"), [each[1:] for each in MUTATIONS], ids=[each[0] for each in MUTATIONS]
)
def test_a_broken_rule_is_found(
    patch: Patch, setting: Setting, bounds: Bounds, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    with pytest.raises(ViolationError, match=found):
        Exploration(setting, bounds).explore()
