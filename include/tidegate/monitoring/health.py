"""How a subscription is: a verdict with its reason, since when, and what to do, out of the facts alone.

Pure functions; `tidegate.monitoring.status` collects the facts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.counting import counted
from tidegate.model.errors import LOOK_AT_BROKER, first_few, kinds
from tidegate.model.subscription import OnDataLoss, RecordSchedule
from tidegate.monitoring.moves import Move
from tidegate.ports import Contact, Decision, DeliveryAge, HistoryEntry, LastRun
from tidegate.runtime.unmade_ledger import after_no_run
from tidegate.steps.clear import answered, how_to_answer, how_to_change, how_to_redeliver
from tidegate.steps.deliver import SILENT
from tidegate.steps.loss import reset_command
from tidegate.steps.ownership import how_to_finish, how_to_move
from tidegate.steps.produced_topics import how_to_create
from tidegate.strategies.failure.strategy import AtLimit

_SHOWN = timedelta(days=1)  # for so long a move of the group is worth a look
_WATCHED_WITHIN = timedelta(minutes=5)  # a triggerer looks each minute
_RUN_WITHIN = timedelta(minutes=10)  # Airflow's scheduler and executor may be busy
_PATIENCE = timedelta(minutes=30)  # so long failing runs may mend themselves
_NEEDS_A_PERSON: Mapping[str, str] = {
    "LostDataError": "bring back or mend what it names, or go on by the command that it names; then run it",
    "GroupInUseError": "stop the consumers that it names, or go on in another group, as it says",
    "MisfitError": "mend the transform, the definition or the table, as it says",
    "WrongDefinitionError": "correct what it names: the definition, the connection, a setting or a topic",
}
"""Errors by which each run ends until somebody does something, and what."""
_OF_A_DELIVERY = "BatchFailedError"
"""Of a run whose delivery failed."""


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
class Drops:
    """How many records were dropped without a retry left, in how many batches; `newest` is the last one, of `at`.

    `kept` of the records are in `_rejected` of their batches' output.
    """

    records: int
    kept: int
    batches: int
    newest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a subscription at the instant `now`.

    `unavailable` is why Kafka didn't answer over `connection`, which is empty where it isn't known. `no_run` says that
    the ledger has nothing of any run, where that is so. `other_cluster` says that the connection leads to another
    cluster than that of the group's positions, which are compared with nothing then, `other_store` that another store
    has them, or those of the open batch, and `other_ledger` that Tidegate committed for the group by another ledger.
    `goes_over` says what of a subscription that was renamed comes to this one by its next run, an open batch perhaps:
    `brings_batch`.
    `missing` are topics, partitions or a pattern that aren't there, `lost` positions whose records are gone, in words;
    `lost_partitions` are theirs, as in `orders:0,2`; `left_retries` counts what waits in retry topics that aren't read
    any more; `unproducible` says which topics for failed records aren't there, where some that must be aren't. All are
    empty where Kafka didn't answer. `cleared_at` is when a batch was last cleared, `reset_at` when the group was last
    reset. `redelivery` is who had the open batch delivered again, until that begins; `delivery` is the age of the one
    that has begun, and hasn't ended as far as anybody knows; `died`: the last one ended without a word; `to_be_held` is
    how the next run holds the open batch, which has failed as often as it may; `is_scheduled`: runs start without
    anybody. `absent` is a batch that this ledger has published and the output lacks, asked for only where another
    ledger seems to have moved the group.
    `watched_records` are those that wait where runs start by what waits, as `schedule` says, None elsewhere;
    `oldest_waits` is for how long the oldest of them has waited by its own timestamp, None where that isn't known.
    `overdue` says that what the open batch's job made has waited too long to be stored. `is_draining`: the subscription
    was unsubscribed by REST, and its definition goes once that is asked again and nothing of it is under way.
    `drops` are those of the definition's strategy, None where it has somewhere to put such records.
    `members_left`: the group has none of the live members any more for which the last run was refused.
    """

    name: str
    now: datetime
    on_data_loss: OnDataLoss = "fail"
    connection: str = ""
    unavailable: str | None = None
    no_run: str | None = None
    contact: Contact | None = None
    last_run: LastRun | None = None
    other_cluster: str | None = None
    other_store: str | None = None
    other_ledger: str | None = None
    goes_over: str | None = None
    brings_batch: bool = False
    open: HistoryEntry | None = None
    watched_records: int | None = None
    schedule: RecordSchedule | None = None
    oldest_waits: timedelta | None = None
    overdue: bool = False
    missing: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    lost_partitions: tuple[str, ...] = ()
    left_retries: Mapping[str, int] = field(default_factory=dict)
    unproducible: str | None = None
    cleared_at: datetime | None = None
    redelivery: Decision | None = None
    delivery: DeliveryAge | None = None
    died: bool = False
    to_be_held: AtLimit | None = None
    is_scheduled: bool = True
    is_draining: bool = False
    members_left: bool = False
    reset_at: datetime | None = None
    moves: tuple[Move, ...] = ()
    drops: Drops | None = None
    absent: str | None = None


def orphaned(batch: Batch) -> Finding:
    """What there is to say of an open batch whose subscription has no definition any more."""
    reason = f"batch {batch.id} is {batch.condition}, and there is no definition {batch.subscription} any more"
    action = (
        f"put the definition back, or run the one that has consumer.group.id: {batch.group} now, which takes the batch "
        f"over; {_what_waits(batch)} before"
    )
    return Finding(Verdict.STALLED, reason, None, action)


def _what_waits(batch: Batch) -> str:
    if batch.is_published:
        return "its rows are in the lake, and its offsets aren't committed"
    if batch.is_discarded:
        return "nothing of it is published, and its offsets aren't committed"
    return "its records don't reach the lake"


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Everything that there is to say, the worst first; what is fine is one finding, OK."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: -finding.verdict.rank)) or (Finding(Verdict.OK),)


def _outage(facts: Facts) -> Iterator[Finding]:
    if facts.unavailable:
        since = facts.contact.since if facts.contact else None
        connection = f"connection {facts.connection}" if facts.connection else "connection"
        action = f"look at the brokers, and at the {connection} with `tidegate check --connect`"
        yield Finding(Verdict.UNREACHABLE, facts.unavailable.replace(f"; {LOOK_AT_BROKER}", ""), since, action)


def _held_batch(facts: Facts) -> Iterator[Finding]:
    if facts.open is None:
        return
    batch, since, name = _found_by_next_run(facts.open.batch, facts), facts.open.since, facts.name
    match batch.state, batch.resolution:
        case State.HELD, Resolution.STOP:
            cure = "see the log of its last delivery" if facts.died else "mend what failed it"
            action = f"{cure}, then {how_to_redeliver(name)}; `--answer skip` or `dead-letter` goes on without it"
            yield Finding(Verdict.STOPPED, f"batch {batch.id} is stopped: {batch.reason}", since, action)
        case State.HELD, Resolution.ASK:
            action = f"answer with {how_to_answer(name)}"
            yield Finding(Verdict.STOPPED, f"batch {batch.id} waits for an answer: {batch.reason}", since, action)
        case State.PUBLISHED, _ if _waits_for_commit(facts):
            reason = f"batch {batch.id} is published and waits for its commit"
            yield Finding(Verdict.WARN, reason, since, f"`tidegate commit {name}` commits its offsets")
    if facts.overdue:
        reason = f"what batch {batch.id} made has waited longer than checkpoint.unsynced-state-max-age.ms to be stored"
        yield Finding(Verdict.WARN, reason, since, "see that its commit isn't kept from running")


def _redelivery(facts: Facts) -> Iterator[Finding]:
    if facts.open is None or facts.redelivery is None:
        return
    reason = f"{answered(facts.redelivery)}: the next run delivers batch {facts.open.batch.id} again"
    if facts.is_draining:
        yield Finding(Verdict.WARN, reason, None, _unsubscribe_again(facts))
    elif facts.is_scheduled:
        yield Finding(Verdict.OK, reason, None, how_to_change(facts.name))
    else:
        yield Finding(Verdict.WARN, reason, None, _run_by_hand(facts))


def _draining(facts: Facts) -> Iterator[Finding]:
    if not facts.is_draining:
        return
    action, batch = _unsubscribe_again(facts), facts.open.batch if facts.open else None
    if batch is not None and _is_held(facts):
        action = f"clear batch {batch.id} first; then {action}"
    elif batch is not None and _waits_for_commit(facts):
        action = f"commit batch {batch.id} first; then {action}"
    yield Finding(Verdict.WARN, "it was unsubscribed and is draining: no new batch begins", None, action)


def _unsubscribe_again(facts: Facts) -> str:
    """What goes on with a subscription that is draining: no schedule begins a run of it."""
    is_to_run = facts.open is not None and not _waits_for_commit(facts)
    so = "has a run end its batch" if is_to_run else "removes it"
    return f"unsubscribe it again, which {so} (`DELETE /tidegate/subscriptions/{facts.name}`)"


def _waits_for_commit(facts: Facts) -> bool:
    """Whether the open batch waits for a person to commit it."""
    return facts.open is not None and facts.open.batch.awaits_commit_by_hand


def _loss(facts: Facts) -> Iterator[Finding]:
    if not facts.lost:
        return
    reason = f"records are gone: {first_few(facts.lost)}".partition("\n")[0]
    if facts.on_data_loss == "reset":
        does = "goes on at the earliest record, and counts what is gone"
        action = f"nothing: the next run {does}" if _comes_by_itself(facts) else f"{_another_run(facts)}; it {does}"
        yield Finding(Verdict.WARN, reason, None, action)
        return
    batch = facts.open.batch if facts.open else None
    if batch is not None and batch.state is not State.PLANNED:
        action = (
            f"nothing before batch {batch.id}, which is {batch.condition}, has ended; then {_remedy_of_loss(facts)}"
        )
        yield Finding(Verdict.WARN, reason, None, action)
        return
    run = facts.last_run
    since = run.failing_since if run is not None and _is(run, "LostDataError") else None
    yield Finding(Verdict.STALLED, reason, since, _remedy_of_loss(facts))


def _is_by_loss(facts: Facts) -> bool:
    """Whether runs fail by the loss: a batch that has landed has all of its records, and fails for something else."""
    return bool(facts.lost) and (facts.open is None or facts.open.batch.state is State.PLANNED)


def _remedy_of_loss(facts: Facts) -> str:
    abandon = facts.open is not None and facts.open.batch.state is State.PLANNED
    reset = reset_command(facts.name, facts.lost_partitions, abandon=abandon)
    return (
        f"set on-data-loss: reset to go on at the earliest records of these partitions, or choose where with {reset}, "
        "which leaves the others where they are"
    )


def _other_cluster(facts: Facts) -> Iterator[Finding]:
    if facts.other_cluster:
        run = facts.last_run
        since = run.failing_since if run is not None and _is(run, "WrongDefinitionError") else None
        action = (
            "point the connection back, or, if the group is to go on in this cluster, run `tidegate offsets "
            f"accept-cluster {facts.name}`, which says what that means"
        )
        yield Finding(Verdict.STALLED, f"no run begins: {facts.other_cluster}", since, action)


def _other_store(facts: Facts) -> Iterator[Finding]:
    if facts.other_store:
        run = facts.last_run
        since = run.failing_since if run is not None and _is(run, "WrongDefinitionError") else None
        action = how_to_finish(facts.open.batch) if facts.open else how_to_move(facts.name)
        yield Finding(Verdict.STALLED, f"no run begins: {facts.other_store}", since, action)


def _unproducible(facts: Facts) -> Iterator[Finding]:
    if facts.unproducible:
        run = facts.last_run
        since = run.failing_since if run is not None and _is_by_topics(facts, run) else None
        action = how_to_create(facts.name)
        yield Finding(Verdict.STALLED, f"no run begins: {facts.unproducible}", since, action)


def _is_by_topics(facts: Facts, run: LastRun) -> bool:
    """Whether the run was refused because a topic for failed records wasn't there that still isn't."""
    return _is(run, "WrongDefinitionError") and bool(facts.unproducible) and str(facts.unproducible) in run.said


def _failing_runs(facts: Facts) -> Iterator[Finding]:
    """Runs that fail, unless something else says why already."""
    run = facts.last_run
    if run is None or run.error is None or run.failing_since is None or _is(run, "StoppedError"):
        return
    if (_is_by_batch(run) and _is_held(facts)) or was_answered(facts):
        return
    if (_is(run, "LostDataError") and _is_by_loss(facts)) or _is_by_topics(facts, run):
        return
    if facts.unavailable and _is(run, "UnavailableError"):
        return
    if facts.other_cluster or facts.other_store:
        return
    if delivery := _delivery_since(facts, run):
        alive = f"with a sign of life {delivery.silent.total_seconds():.0f} s ago"
        reason = f"a delivery of batch {facts.open.batch.id if facts.open else ''} is under way, {alive}"
        yield Finding(Verdict.OK, reason, facts.now - delivery.begun)
        return
    known = next((each for each in kinds(run.error) if each in _NEEDS_A_PERSON), None)
    if facts.members_left and is_by_members(run):
        reason = "the last run failed because the group had live members, and it has none any more"
        yield Finding(Verdict.WARN, reason, run.failing_since, _another_run(facts))
    elif known is not None:
        action = _NEEDS_A_PERSON[known]
        yield Finding(Verdict.STALLED, f"no run goes on: {run.said}", run.failing_since, action)
    elif facts.now - run.failing_since > _PATIENCE:
        action = "see the log of the last run" + ("" if _comes_by_itself(facts) else f"; then {_another_run(facts)}")
        yield Finding(Verdict.STALLED, f"no run has succeeded since: {run.said}", run.failing_since, action)
    else:
        yield Finding(Verdict.WARN, f"the last run failed: {run.said}", run.failing_since, _another_run(facts))


def _silent_delivery(facts: Facts) -> Iterator[Finding]:
    """A delivery that nothing is heard of, unless a run has failed since, which says more."""
    delivery, run = facts.delivery, facts.last_run
    if facts.open is None or delivery is None or delivery.silent <= SILENT:
        return
    if run is not None and run.error is not None and run.ended_at >= facts.now - delivery.begun:
        return
    reason = f"the delivery of batch {facts.open.batch.id} gives no sign of life any more: its process or its machine "
    reason += "died, or couldn't reach the ledger"
    yield Finding(Verdict.WARN, reason, facts.now - delivery.silent, _another_run(facts))


def _another_run(facts: Facts) -> str:
    """What there is to do for the run that tries again."""
    if _comes_by_itself(facts):
        return "nothing yet: the next run tries again"
    return _unsubscribe_again(facts) if facts.is_draining else _run_by_hand(facts)


def _comes_by_itself(facts: Facts) -> bool:
    """Whether a next run does."""
    return facts.is_scheduled and not facts.is_draining


def _run_by_hand(facts: Facts) -> str:
    return f"`tidegate run {facts.name}`, or its DAG: no schedule runs it"


def says_why_the_last_run_failed(facts: Facts) -> bool:
    """Whether one of the findings does."""
    run = facts.last_run
    if run is None or run.error is None:
        return False
    if _is(run, "StoppedError"):
        return _is_held(facts) and not _is(run, "RefusedAnswerError")
    return not was_answered(facts) and _delivery_since(facts, run) is None


def _delivery_since(facts: Facts, run: LastRun) -> DeliveryAge | None:
    """The delivery that is under way, if it says more than that run, which failed before it or because of it."""
    delivery = facts.delivery
    if delivery is None or delivery.silent > SILENT:
        return None
    return delivery if _is(run, _OF_A_DELIVERY) or facts.now - delivery.begun > run.ended_at else None


def is_by_members(run: LastRun | None) -> bool:
    """Whether the run was refused because the group had live members."""
    return run is not None and _is(run, "GroupInUseError")


def _is(run: LastRun, kind: str) -> bool:
    """Whether the run ended by an error of this kind."""
    return run.error is not None and kind in kinds(run.error)


def _is_by_batch(run: LastRun) -> bool:
    """Whether what the batch came to failed it: one that is held says so itself, and no next run tries it again."""
    return _is(run, _OF_A_DELIVERY) or _is(run, "MisfitError")


def _is_held(facts: Facts) -> bool:
    return facts.open is not None and _found_by_next_run(facts.open.batch, facts).state is State.HELD


def _found_by_next_run(batch: Batch, facts: Facts) -> Batch:
    """The open batch, held if it has failed as often as it may."""
    if facts.to_be_held is None:
        return batch
    return replace(batch, state=State.HELD, resolution=facts.to_be_held.resolution, reason=facts.to_be_held.reason)


def was_answered(facts: Facts) -> bool:
    """Whether somebody has done since what the failed run asked for: the next one shows what comes of it."""
    run = facts.last_run
    if run is None:
        return False
    if _is(run, "LostDataError"):
        return not facts.lost and facts.reset_at is not None and facts.reset_at > run.ended_at
    done = [at for at in (facts.cleared_at, facts.reset_at) if at is not None and at > run.ended_at]
    asks = _is_by_batch(run) or _is(run, "StoppedError")
    return asks and (facts.redelivery is not None or (bool(done) and not _is_held(facts)))


def _moved(facts: Facts) -> Iterator[Finding]:
    newest = [move for move in facts.moves if _is_shown(move, facts.now)]
    if newest:
        times = [move.seen_at for move in newest if move.seen_at is not None]
        is_another_ledgers = any(move.by_another_ledger for move in newest)
        who = "batches that this ledger doesn't know, nor the output," if is_another_ledgers else "somebody"
        reason = f"{who} moved the group: {'; '.join(map(str, newest))}"
        action = _after_a_move(facts.name, newest)
        if is_another_ledgers and facts.absent:
            reason = f"{reason}; the output lacks batch {facts.absent}, too, which this ledger has published"
            action = (
                "see whether the output was moved or deleted, and put it back first: it may have these records, which "
                f"a reset would publish again. If it has no others: {action}"
            )
        yield Finding(Verdict.REWOUND, reason, min(times, default=None), action)


def _after_a_move(name: str, moved: Sequence[Move]) -> str:
    again = (
        f"`tidegate replay {name}` reads what was passed over into another output; `tidegate group reset {name}` to "
        "before it reads it into this one, and what has been read since once more"
    )
    if any(move.by_another_ledger for move in moved):
        return (
            "have whoever else runs this subscription use the same ledger (`tidegate settings` names it: another "
            f"TIDEGATE_HOME has one of its own), or another group; then {again}"
        )
    if any(move.is_forward for move in moved):
        return f"nothing if that was meant; else {again}"
    return "nothing if that was meant: these records come twice, in batches of their own"


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
        yield Finding(Verdict.WARN, facts.no_run, None, after_no_run(facts.name))


def _other_ledger(facts: Facts) -> Iterator[Finding]:
    if facts.other_ledger and not facts.no_run:
        action = (
            "if it wasn't lost, start no run: correct TIDEGATE_HOME or TIDEGATE_LEDGER, or restore a backup by "
            "`tidegate ledger restore FILE --replace`; else the next run goes on where the group is"
        )
        yield Finding(Verdict.WARN, facts.other_ledger, None, action)


def _goes_over(facts: Facts) -> Iterator[Finding]:
    if facts.goes_over:
        verdict = Verdict.STALLED if facts.brings_batch else Verdict.WARN
        yield Finding(verdict, facts.goes_over, None, _another_run(facts))


def _left_retries(facts: Facts) -> Iterator[Finding]:
    if facts.left_retries:
        waiting = ", ".join(f"{topic} (up to {number:,})" for topic, number in sorted(facts.left_retries.items()))
        reason = f"failed records wait to be delivered again in topics that aren't read any more: {waiting}"
        action = (
            "set failure-strategy: delayed-retry-topic again, with these in delayed-retry-topic.topics, until nothing "
            "waits there: else nobody delivers them"
        )
        yield Finding(Verdict.WARN, reason, None, action)


def _dropped(facts: Facts) -> Iterator[Finding]:
    drops = facts.drops
    if drops is None or facts.now - drops.at >= _SHOWN:
        return
    one = drops.records == 1
    number = f"{counted(drops.records, 'rejected record')} {'was' if one else 'were'} dropped without a retry left"
    place = f"in batch {drops.newest}" if drops.batches == 1 else f"in {drops.batches} batches, last in {drops.newest}"
    action = "set dead-letter-queue.topic, to which such records go from then on"
    yield Finding(Verdict.WARN, f"{number}, {place}; {_kept(drops)}", drops.at, action)


def _kept(drops: Drops) -> str:
    if not drops.kept:
        return "`_rejected` in the output doesn't have them, as what failed was a batch as a whole"
    which = ("it" if drops.records == 1 else "them") if drops.kept == drops.records else f"{drops.kept:,} of them"
    return f"`_rejected` in the output has {which}"


def _unwatched(facts: Facts) -> Iterator[Finding]:
    contact = facts.contact
    if not facts.watched_records or _is_watched(facts):
        return
    since = contact.since if contact is not None and contact.has_answered else None
    reason = f"{facts.watched_records:,} records wait, and nobody looks for them, so that no run starts by what waits"
    action = "see that Airflow's triggerer runs and its log has no error, and that the DAG isn't paused"
    yield Finding(Verdict.WARN, reason, since, action)


def _is_watched(facts: Facts) -> bool:
    return facts.contact is not None and facts.contact.ago < _WATCHED_WITHIN


def _no_run_comes(facts: Facts) -> Iterator[Finding]:
    """Runs that are due, and of which none gets as far as a task of ours: how they end is known to Airflow alone.

    By `or-after.ms` only: since when as many records wait as start a run, nothing tells.
    """
    waits, schedule, run = facts.oldest_waits, facts.schedule, facts.last_run
    if waits is None or schedule is None or schedule.or_after_ms is None or facts.open is not None:
        return
    due = timedelta(milliseconds=schedule.or_after_ms)
    patience = due + max(_RUN_WITHIN, 2 * due)
    if not _is_watched(facts) or waits <= patience or (run is not None and facts.now - run.ended_at <= patience):
        return
    wait = timedelta(seconds=round(waits.total_seconds()))
    number = facts.watched_records or 0
    waiting = f"{counted(number, 'record')} {'waits' if number == 1 else 'wait'}"
    reason = f"{waiting}, the oldest for {wait}, and no run has come to them"
    action = (
        f"see with `airflow dags list-runs {facts.name}` whether runs were started and how they ended: one that fails "
        "before its first task is noted by Airflow alone"
    )
    yield Finding(Verdict.WARN, reason, None if run is None else run.ended_at, action)


_RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _no_run,
    _other_ledger,
    _goes_over,
    _outage,
    _held_batch,
    _redelivery,
    _draining,
    _other_cluster,
    _other_store,
    _unproducible,
    _loss,
    _failing_runs,
    _silent_delivery,
    _moved,
    _missing,
    _left_retries,
    _dropped,
    _unwatched,
    _no_run_comes,
)
