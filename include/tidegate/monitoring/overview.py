"""How all subscriptions stand, the worst first: what the ledger knows now, and what was last seen of Kafka.

Pure functions over `tidegate.ledger.overview`; a batch that has stopped since Kafka was asked shows at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from tidegate.ledger.overview import Entry, Overview
from tidegate.model.batch import Resolution
from tidegate.model.offsets import TopicPartition
from tidegate.monitoring.health import (
    Drops,
    Facts,
    Finding,
    Verdict,
    findings,
    orphaned,
    says_why_the_last_run_failed,
    was_answered,
)
from tidegate.monitoring.moves import Move
from tidegate.steps.clear import answered
from tidegate.strategies.failure.strategy import AtLimit

UNKNOWN: Final = "UNKNOWN"
"""Of a subscription with which nothing is wrong as far as the ledger knows, and of which Kafka was never asked."""
VERDICTS: Final = (*(str(each) for each in sorted(Verdict, key=lambda each: -each.rank) if each.rank), UNKNOWN, "OK")
"""The worst first."""
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Standing:
    """One subscription: what was found, the worst first, and since when what is known of Kafka is known.

    `lag` in records, `lag_seconds` of the oldest of them; None where that wasn't known. `orphan`: no definition has it.
    `is_draining`: it was unsubscribed by REST. `tells_last_run`: a finding says why the last run failed;
    `run_was_answered`: somebody has done what it asked for; `answer` says who, if it was about the open batch.
    """

    name: str
    verdict: str
    findings: tuple[Finding, ...]
    entry: Entry
    orphan: bool = False
    is_draining: bool = False
    tells_last_run: bool = False
    run_was_answered: bool = False
    answer: str = ""

    @property
    def finding(self) -> Finding:
        """The worst."""
        return self.findings[0]

    @property
    def observed_at(self) -> datetime | None:
        """When Kafka was asked; None if it never was."""
        return self.entry.observed_at

    @property
    def lag(self) -> int | None:
        """Records that waited then."""
        return _known(self.entry).get("lag")

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest of them had waited."""
        return _known(self.entry).get("lag_seconds")


def standings(names: Iterable[str], overview: Overview) -> tuple[Standing, ...]:
    """Each of these subscriptions, each stored one, and each that has an open batch without a definition.

    The names are those of files, which count in the place of stored ones.
    """
    files = frozenset(names)
    stored = {entry.subscription for entry in overview.entries.values() if entry.is_stored}
    draining = {name for name in stored - files if overview.entries[name].is_draining}
    defined = files | stored
    found = [
        _standing(overview.entries.get(name) or _unheard_of(name), overview.now, is_draining=name in draining)
        for name in defined
    ]
    orphans = [
        Standing(name, str(finding.verdict), (finding,), entry, orphan=True)
        for name, entry in overview.entries.items()
        if name not in defined and entry.open is not None and not entry.is_replay
        for finding in (orphaned(entry.open.batch),)
    ]
    return tuple(sorted([*found, *orphans], key=_place))


def with_findings(found: Iterable[Standing], more: Mapping[str, Finding]) -> tuple[Standing, ...]:
    """The same, the worst first, with a finding more for each name that has one."""
    return tuple(sorted((_with(each, more[each.name]) if each.name in more else each for each in found), key=_place))


def counts(found: Iterable[Standing]) -> dict[str, int]:
    """How many there are of each verdict, the worst first; those that nobody has are left out."""
    counted = Counter(each.verdict for each in found)
    return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}


def selected(found: Iterable[Standing], text: str, verdict: str) -> tuple[Standing, ...]:
    """Those whose name, reason or action has this text, in any case, and that have this verdict; empty for any."""
    wanted = text.strip().casefold()
    return tuple(
        each for each in found if verdict in ("", each.verdict) and (not wanted or wanted in _words(each).casefold())
    )


def _words(standing: Standing) -> str:
    return " ".join((standing.name, *(part for each in standing.findings for part in (each.reason, each.action))))


def _place(standing: Standing) -> tuple[int, datetime, str]:
    return (
        VERDICTS.index(standing.verdict),
        standing.finding.since or standing.entry.observed_at or _NEVER,
        standing.name,
    )


def _standing(entry: Entry, now: datetime, *, is_draining: bool) -> Standing:
    known = _known(entry)
    facts = _facts(entry, known, now)
    if is_draining:
        facts = replace(facts, is_draining=True, is_scheduled=False, watched_records=None)
    found = findings(facts)
    if known and "group" not in known:  # its definition, or what it names, couldn't be used
        rest = (each for each in found if each.verdict is not Verdict.OK)
        found = tuple(sorted((_told(known), *rest), key=lambda each: -each.verdict.rank))
    is_known = found[0].verdict is not Verdict.OK or entry.observed_at is not None
    verdict = str(found[0].verdict) if is_known else UNKNOWN
    return Standing(
        entry.subscription,
        verdict,
        found,
        entry,
        is_draining=is_draining,
        tells_last_run=says_why_the_last_run_failed(facts),
        run_was_answered=was_answered(facts),
        answer=_answer(entry) if was_answered(facts) else "",
    )


def _answer(entry: Entry) -> str:
    """What was decided about the open batch since the last run, as the clearance says it."""
    decided, run = entry.decision, entry.last_run
    return answered(decided) if decided and run and decided.at > run.ended_at else ""


def _with(standing: Standing, finding: Finding) -> Standing:
    rest = (each for each in standing.findings if each.verdict is not Verdict.OK)
    found = tuple(sorted((finding, *rest), key=lambda each: -each.verdict.rank))
    return replace(standing, verdict=str(found[0].verdict), findings=found)


def _facts(entry: Entry, known: Mapping[str, Any], now: datetime) -> Facts:
    batch = None if entry.open is None else entry.open.batch
    seen_open = known.get("open") or {}
    return Facts(
        name=entry.subscription,
        now=now,
        on_data_loss=known.get("on_data_loss", "fail"),
        connection=known.get("connection", ""),
        unavailable=None if _has_answered_since(entry) else known.get("unavailable"),
        no_run=None if entry.contact or entry.last_run or batch else known.get("no_run"),
        contact=entry.contact,
        last_run=entry.last_run,
        other_cluster=known.get("other_cluster"),
        other_store=known.get("other_store"),
        other_ledger=None if entry.last_run or batch else known.get("other_ledger"),
        goes_over=None if entry.last_run or batch else known.get("goes_over"),
        brings_batch=known.get("brings_batch", False),
        open=entry.open,
        watched_records=known.get("watched_records"),
        overdue=bool(batch and seen_open.get("batch_id") == batch.id and seen_open.get("overdue")),
        missing=tuple(known.get("missing", ())),
        lost=tuple(known.get("lost", ())),
        lost_partitions=tuple(known.get("lost_partitions", ())),
        left_retries=known.get("left_retries", {}),
        unproducible=known.get("unproducible"),
        redelivery=entry.redelivery,
        delivery=entry.delivery,
        died=entry.died,
        to_be_held=_to_be_held(entry, seen_open),
        is_scheduled=known.get("is_scheduled", True),
        members_left=known.get("members_left", False) and not _has_run_since(entry),
        cleared_at=entry.decision.at if entry.decision else _instant(known.get("cleared_at")),
        reset_at=_instant(known.get("reset_at")),
        moves=tuple(map(_move, known.get("moves", ()))),
        drops=_drops(known["drops"]) if known.get("drops") else None,
    )


def _to_be_held(entry: Entry, seen_open: Mapping[str, Any]) -> AtLimit | None:
    """How the next run was seen to hold the open batch, if nothing has become of it since."""
    told = seen_open.get("to_be_held")
    if told is None or entry.open is None or entry.redelivery is not None:
        return None
    if (entry.open.batch.id, entry.open.since) != (seen_open["batch_id"], _instant(seen_open["since"])):
        return None
    return AtLimit(Resolution(told["resolution"]), told["reason"])


def _has_answered_since(entry: Entry) -> bool:
    """Whether a broker has answered a run after it was last asked for the list."""
    contact, seen = entry.contact, entry.observed_at
    return contact is not None and contact.has_answered and seen is not None and contact.since > seen


def _has_run_since(entry: Entry) -> bool:
    """Whether a run has ended after Kafka was last asked for the list."""
    run, seen = entry.last_run, entry.observed_at
    return run is not None and seen is not None and run.ended_at > seen


def _move(told: Mapping[str, Any]) -> Move:
    at = TopicPartition(told["topic"], told["partition"])
    read_since = tuple((start, end) for start, end in told.get("read_since", ()))
    seen_at, by_another = _instant(told["seen_at"]), told.get("by_another_ledger", False)
    return Move(at, told["from"], told["to"], seen_at, read_since, by_another)


def _drops(told: Mapping[str, Any]) -> Drops:
    return Drops(**{**told, "at": datetime.fromisoformat(told["at"])})


def _told(document: Mapping[str, Any]) -> Finding:
    return Finding(Verdict(document["verdict"]), document["reason"], _instant(document["since"]), document["action"])


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _known(entry: Entry) -> Mapping[str, Any]:
    return entry.summary or {}


def _unheard_of(name: str) -> Entry:
    nothing: Mapping[str, Any] = dict.fromkeys(("open", "decision", "redelivery", "delivery", "last_run", "contact"))
    return Entry(name, **nothing, observed_at=None, summary=None, is_stored=False, is_replay=False)
