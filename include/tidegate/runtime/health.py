"""How a subscription is: a verdict with its reason, since when, and what to do, out of the facts alone.

Pure functions; `tidegate.runtime.status` collects the facts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, CommitStrategy
from tidegate.model.errors import first_few
from tidegate.model.subscription import OnDataLoss
from tidegate.ports import Contact, HistoryEntry, LastRun
from tidegate.runtime.moves import Move

_SHOWN = timedelta(days=1)  # for so long a move of the group is worth a look
_WATCHED_WITHIN = timedelta(minutes=5)  # a triggerer looks each minute
_PATIENCE = timedelta(minutes=30)  # so long failing runs may mend themselves
_NEEDS_A_PERSON: Mapping[str, str] = {
    "LostDataError": (
        "set on-data-loss: reset to go on at the earliest records of these partitions, or choose where with "
        "`tidegate group reset {name} --to earliest{partitions}`, which leaves the others where they are"
    ),
    "GroupInUseError": "stop the consumers that it names, or give the subscription a consumer.group.id of its own",
    "MisfitError": "mend the transform, the definition or the table, as it says",
    "WrongDefinitionError": "correct what it names: the definition, the connection, a setting or a topic",
}
"""Errors by which each run ends until somebody does something, and what.

`{name}` is the subscription, `{partitions}` the arguments that name those of lost records.
"""
_GONE = "bring back what it says is gone, or go on by the command that it names"
_LONGEST = 200  # characters of the partitions in a command
_OF_A_DELIVERY = ("BatchFailedError", "RecordsFailedError", "DeliveryTimeoutError", "InterruptedDeliveryError")
"""Errors of a run whose delivery failed: a batch that is held says so itself, and no next run tries it again."""


class Verdict(StrEnum):
    """In a word how a subscription is, the best first."""

    OK = "OK"
    WARN = "WARN"
    REWOUND = "REWOUND"
    STALLED = "STALLED"
    STOPPED = "STOPPED"
    UNREACHABLE = "UNREACHABLE"

    @property
    def exit_status(self) -> int:
        """As monitoring plugins end: 0 fine, 1 a warning, 2 critical."""
        if self is Verdict.OK:
            return 0
        return 1 if self in (Verdict.WARN, Verdict.REWOUND) else 2

    @property
    def rank(self) -> int:
        """How bad it is."""
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict, why, since when where that is known, and what a person is to do; empty for nothing."""

    verdict: Verdict
    reason: str = ""
    since: datetime | None = None
    action: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a subscription at the instant `now`.

    `unavailable` is why Kafka didn't answer over `connection`, which is empty where it isn't known. `no_run` says that
    the ledger has nothing of any run, where that is so. `other_cluster` says that the connection leads to another
    cluster than that of the group's positions, `other_store` that another store has them: they are compared with
    nothing then.
    `missing` are topics, partitions or a pattern that aren't there, `lost` positions whose records are gone, in words;
    `lost_partitions` are theirs, as in `orders:0,2`; all are empty where Kafka didn't answer. `cleared_at` is when a
    batch was last cleared, `reset_at` when the group was last reset.
    `watched_records` are those that wait where runs start by what waits, None elsewhere.
    `overdue` says that what the open batch's job made has waited too long to be stored.
    """

    name: str
    now: datetime
    commit_strategy: CommitStrategy = "after-processing"
    on_data_loss: OnDataLoss = "fail"
    connection: str = ""
    unavailable: str | None = None
    no_run: str | None = None
    contact: Contact | None = None
    last_run: LastRun | None = None
    other_cluster: str | None = None
    other_store: str | None = None
    open: HistoryEntry | None = None
    watched_records: int | None = None
    overdue: bool = False
    missing: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    lost_partitions: tuple[str, ...] = ()
    cleared_at: datetime | None = None
    reset_at: datetime | None = None
    moves: tuple[Move, ...] = ()


def orphaned(batch: Batch) -> Finding:
    """What there is to say of an open batch whose subscription has no definition any more."""
    reason = f"batch {batch.id} is {batch.condition}, and there is no definition {batch.subscription} any more"
    action = (
        f"put the definition back, or give another one consumer.group.id: {batch.group}, whose next run goes on with "
        "the batch; its records don't reach the lake before"
    )
    return Finding(Verdict.STALLED, reason, None, action)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Everything that there is to say, the worst first; what is fine is one finding, OK."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: -finding.verdict.rank)) or (Finding(Verdict.OK),)


def _outage(facts: Facts) -> Iterator[Finding]:
    if facts.unavailable:
        since = facts.contact.since if facts.contact else None
        connection = f"connection {facts.connection}" if facts.connection else "connection"
        action = f"look at the brokers, and at the {connection} with `tidegate check --connect`"
        yield Finding(Verdict.UNREACHABLE, facts.unavailable, since, action)


def _held_batch(facts: Facts) -> Iterator[Finding]:
    if facts.open is None:
        return
    batch, since, name = facts.open.batch, facts.open.since, facts.name
    match batch.state, batch.resolution:
        case State.HELD, Resolution.STOP:
            action = (
                f"correct the job, then `tidegate clear {name}` has the batch delivered again; `--answer skip` or "
                "`dead-letter` goes on without it"
            )
            yield Finding(Verdict.STOPPED, f"batch {batch.id} is stopped: {batch.reason}", since, action)
        case State.HELD, Resolution.ASK:
            how = f"`tidegate clear {name} --answer redeliver|dead-letter|skip|stop`"
            action = f"answer with {how}, or in Airflow's task ask"
            yield Finding(Verdict.STOPPED, f"batch {batch.id} waits for an answer: {batch.reason}", since, action)
        case State.PUBLISHED, _ if COMMIT_POLICIES[facts.commit_strategy].commit_at is CommitPoint.MANUAL:
            reason = f"batch {batch.id} is published and waits for its commit"
            yield Finding(Verdict.WARN, reason, since, f"`tidegate commit {name}` commits its offsets")
    if facts.overdue:
        reason = f"what batch {batch.id} made has waited longer than checkpoint.unsynced-state-max-age.ms to be stored"
        yield Finding(Verdict.WARN, reason, since, "see that its commit isn't kept from running")


def _loss(facts: Facts) -> Iterator[Finding]:
    if not facts.lost:
        return
    reason = f"records are gone: {first_few(facts.lost)}".partition("\n")[0]
    if facts.on_data_loss == "reset":
        yield Finding(Verdict.WARN, reason, None, "nothing: the next run goes on at the earliest record, and counts it")
        return
    run = facts.last_run
    since = run.failing_since if run is not None and run.error == "LostDataError" else None
    yield Finding(Verdict.STALLED, reason, since, _action(facts, "LostDataError"))


def _other_cluster(facts: Facts) -> Iterator[Finding]:
    if facts.other_cluster:
        run = facts.last_run
        since = run.failing_since if run is not None and run.error == "WrongDefinitionError" else None
        action = (
            "point the connection back, or, if the group is to go on in this cluster, run `tidegate offsets "
            f"accept-cluster {facts.name}`, which says what that means"
        )
        yield Finding(Verdict.STALLED, f"no run begins: {facts.other_cluster}", since, action)


def _other_store(facts: Facts) -> Iterator[Finding]:
    if facts.other_store:
        run = facts.last_run
        since = run.failing_since if run is not None and run.error == "WrongDefinitionError" else None
        action = f"run `tidegate offsets move {facts.name}`, which takes them there, or set the strategy back"
        yield Finding(Verdict.STALLED, f"no run begins: {facts.other_store}", since, action)


def _failing_runs(facts: Facts) -> Iterator[Finding]:
    """Runs that fail, unless something else says why already."""
    run = facts.last_run
    if run is None or run.error is None or run.failing_since is None or run.error == "StoppedError":
        return
    if (run.error in _OF_A_DELIVERY and _is_held(facts)) or _was_answered(run, facts):
        return
    if (run.error == "LostDataError" and facts.lost) or (
        run.error == "WrongDefinitionError" and (facts.other_cluster or facts.other_store)
    ):
        return
    if run.error in _NEEDS_A_PERSON:
        yield Finding(Verdict.STALLED, f"no run goes on: {run.said}", run.failing_since, _action(facts, run.error))
    elif facts.now - run.failing_since > _PATIENCE:
        yield Finding(Verdict.STALLED, f"every run fails: {run.said}", run.failing_since, "see the log of the last run")
    else:
        yield Finding(
            Verdict.WARN, f"the last run failed: {run.said}", run.failing_since, "nothing yet: the next run tries again"
        )


def says_why_the_last_run_failed(facts: Facts) -> bool:
    """Whether one of the findings does."""
    run = facts.last_run
    if run is None or run.error is None:
        return False
    return _is_held(facts) if run.error == "StoppedError" else not _was_answered(run, facts)


def _is_held(facts: Facts) -> bool:
    return facts.open is not None and facts.open.batch.state is State.HELD


def _was_answered(run: LastRun, facts: Facts) -> bool:
    """Whether somebody has done since what the failed run asked for: the next one shows what comes of it."""
    if run.error == "LostDataError":
        return not facts.lost and facts.reset_at is not None and facts.reset_at > run.ended_at
    is_cleared = facts.cleared_at is not None and facts.cleared_at > run.ended_at
    return run.error in _OF_A_DELIVERY and is_cleared and not _is_held(facts)


def _action(facts: Facts, error: str) -> str:
    if error == "LostDataError" and not facts.lost:
        return _GONE
    partitions = "".join(f" --partitions {each}" for each in facts.lost_partitions)
    if not 0 < len(partitions) <= _LONGEST:
        partitions = " --partitions TOPIC:NUMBERS"
    return _NEEDS_A_PERSON[error].format(name=facts.name, partitions=partitions)


def _moved(facts: Facts) -> Iterator[Finding]:
    newest = [move for move in facts.moves if _is_shown(move, facts.now)]
    if newest:
        times = [move.seen_at for move in newest if move.seen_at is not None]
        reason = f"somebody moved the group: {'; '.join(map(str, newest))}"
        action = "nothing if that was meant; what was passed over is read again once the group is reset to before it"
        if not any(move.is_forward for move in newest):
            action = "nothing if that was meant: these records come twice, in batches of their own"
        yield Finding(Verdict.REWOUND, reason, min(times, default=None), action)


def _is_shown(move: Move, now: datetime) -> bool:
    """Whether a move is worth a look: not long after it was seen, nor once what it passed over was read."""
    if move.is_forward and not move.unread:
        return False
    return move.seen_at is None or now - move.seen_at < _SHOWN


def _missing(facts: Facts) -> Iterator[Finding]:
    if facts.missing:
        reason = f"not there: {', '.join(facts.missing)}"
        action = "create it, or correct its name: `tidegate check --connect` tells the nearest one that is there"
        yield Finding(Verdict.WARN, reason, None, action)


def _no_run(facts: Facts) -> Iterator[Finding]:
    if facts.no_run:
        action = f"`tidegate run {facts.name}`, or its DAG; if runs have been, correct TIDEGATE_LEDGER"
        yield Finding(Verdict.WARN, facts.no_run, None, action)


def _unwatched(facts: Facts) -> Iterator[Finding]:
    contact = facts.contact
    if not facts.watched_records or (contact is not None and contact.ago < _WATCHED_WITHIN):
        return
    since = contact.since if contact is not None and contact.has_answered else None
    reason = f"{facts.watched_records:,} records wait, and nobody looks for them, so that no run starts by what waits"
    yield Finding(Verdict.WARN, reason, since, "see that Airflow's triggerer runs, and that the DAG isn't paused")


_RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _no_run,
    _outage,
    _held_batch,
    _other_cluster,
    _other_store,
    _loss,
    _failing_runs,
    _moved,
    _missing,
    _unwatched,
)
