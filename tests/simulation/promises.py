"""What each strategy promises of a record, as pure functions of what has become of the records.

The commit strategy says what a commit may leave behind, the failure strategy which ends a record may have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from simulation.facts import NONE, At, Facts, Records, listed
from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.failure_policy import FailureStrategy
from tidegate.model.subscription import Subscription

Of = Callable[[Facts, str | None], Records]
"""Records of one incarnation, or of all."""


def answered(facts: Facts, incarnation: str | None) -> Records:
    """`fail` and `ask`: in the lake, or as a person said of its batch."""
    return facts.written(incarnation) | facts.gone(incarnation) | facts.buried(incarnation)


def ignored(facts: Facts, incarnation: str | None) -> Records:
    """`ignore`: in the lake, rejected beside it, or in a batch that was given up."""
    return facts.written(incarnation) | facts.rejected(incarnation) | facts.gone(incarnation)


def dead_lettered(facts: Facts, incarnation: str | None) -> Records:
    """`dead-letter-queue`: in the lake or in the dead-letter topic."""
    return facts.written(incarnation) | facts.buried(incarnation)


def retried(facts: Facts, incarnation: str | None) -> Records:
    """`delayed-retry-topic`: in the lake, whichever retry that took, or in the dead-letter topic after the last one."""
    return facts.written(incarnation) | facts.buried(incarnation)


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends that a failure strategy has for records, and what it may do without asking anybody."""

    settled: Of
    gives_up: frozenset[Resolution] = frozenset()
    may_reject: bool = False


ENDS: Mapping[FailureStrategy, Ends] = {
    "fail": Ends(answered),
    "ask": Ends(answered),
    "ignore": Ends(ignored, frozenset({Resolution.SKIP}), may_reject=True),
    "dead-letter-queue": Ends(dead_lettered, frozenset({Resolution.DEAD_LETTER}), may_reject=True),
    "delayed-retry-topic": Ends(retried, frozenset({Resolution.RETRY_LATER}), may_reject=True),
}


def none(facts: Facts, incarnation: str | None) -> Records:  # noqa: ARG001 (what every strategy is asked)
    """No other end than those of the failure strategy."""
    return NONE


def acknowledged(facts: Facts, incarnation: str | None) -> Records:
    """`throttled`: what a job acknowledges, it has done with, whatever becomes of the job."""
    return facts.done_with(incarnation)


def overtaken(facts: Facts, incarnation: str | None) -> Records:
    """`latest`: the same, and what lies before it may be skipped."""
    return facts.done_with(incarnation) | facts.passed_by(incarnation)


def none_again(handed: Sequence[At], acknowledged: Records) -> Records:  # noqa: ARG001 (what every strategy is asked)
    """Nothing in particular: nobody acknowledges."""
    return NONE


def what_has_no_gap(handed: Sequence[At], acknowledged: Records) -> Records:
    """`throttled`: what is acknowledged without a gap isn't handed out again, so the first record isn't one of it."""
    return acknowledged & set(handed[:1])


def whatever_is_acknowledged(handed: Sequence[At], acknowledged: Records) -> Records:
    """`latest`: no record that is acknowledged is handed out again."""
    return acknowledged & set(handed)


def nothing(settled: Of, facts: Facts) -> Records:  # noqa: ARG001 (what every strategy is asked)
    """No commit may pass anything: there is none."""
    return NONE


def what_is_settled(settled: Of, facts: Facts) -> Records:
    """A commit passes only what has come to its end."""
    return settled(facts, None)


def what_has_landed(settled: Of, facts: Facts) -> Records:
    """A commit passes what is durable, whatever becomes of it then."""
    return settled(facts, None) | facts.landed | facts.excused


def everything(facts: Facts) -> Records:
    """All records have to come to an end."""
    return facts.everything


def what_no_ledger_forgot(facts: Facts) -> Records:
    """All but what was committed and only a lost ledger knew of."""
    return facts.everything - facts.excused


def what_one_run_takes(facts: Facts) -> Records:  # noqa: ARG001 (what every strategy is asked)
    """Nothing in particular: each run begins anew, and takes what its cap lets it."""
    return NONE


@dataclass(frozen=True, slots=True)
class Order:
    """What a commit strategy lets a commit pass, and what has to have come to an end when there is nothing left.

    `in_the_commit`: dead letters are produced in the transaction that passes their records. `is_kept`: what is
    committed outlasts the run. `also` are the records that are done with though no batch of them came to an end.
    `not_again` are those of the records that a delivery is handed, in order, which it should not have been, after these
    had been acknowledged of its batch.
    """

    may_pass: Callable[[Of, Facts], Records]
    due: Callable[[Facts], Records] = everything
    in_the_commit: bool = True
    is_kept: bool = True
    also: Of = none
    not_again: Callable[[Sequence[At], Records], Records] = none_again


AFTER_PUBLISHING = Order(what_is_settled)
ORDERS: Mapping[CommitStrategy, Order] = {
    "after-processing": AFTER_PUBLISHING,
    "on-next-poll": AFTER_PUBLISHING,
    "manual": AFTER_PUBLISHING,
    "checkpoint": AFTER_PUBLISHING,
    "throttled": Order(what_is_settled, also=acknowledged, not_again=what_has_no_gap),
    "latest": Order(what_is_settled, also=overtaken, not_again=whatever_is_acknowledged),
    "on-receipt": Order(what_has_landed, what_no_ledger_forgot, in_the_commit=False),
    "ignore": Order(nothing, what_one_run_takes, in_the_commit=False, is_kept=False),
}
"""A commit strategy that isn't here isn't simulated."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised to a subscription with these strategies; `once`: a dead letter comes exactly once."""

    order: Order
    ends: Ends
    once: bool

    @classmethod
    def of(cls, subscription: Subscription, *, fencing: bool) -> "Promise":
        """The promise of a definition, with a fence that is one or not."""
        order = ORDERS[subscription.commit_strategy]
        return cls(
            order, ENDS[cast("FailureStrategy", subscription.failure_strategy)], once=fencing and order.in_the_commit
        )

    def settled(self, facts: Facts, incarnation: str | None = None) -> Records:
        """The records that have come to an end.

        Whatever the strategy, a batch that its records didn't fail stops, and ends as a person says.
        """
        by_itself = self.ends.settled(facts, incarnation) | self.order.also(facts, incarnation)
        return by_itself | answered(facts, incarnation)

    def passed_too_early(self, facts: Facts) -> Records:
        """What a commit has passed and may not have."""
        return facts.passed - self.order.may_pass(self.settled, facts) - facts.waiting - facts.skipped

    def lost(self, facts: Facts) -> Records:
        """What should have come to an end once all is over."""
        return self.order.due(facts) - self.settled(facts) - facts.skipped

    def doubled(self, facts: Facts) -> Iterator[str]:
        """Records with more ends than one, in words."""
        yield from _in_the_lake_again(facts, kept=self.order.is_kept, once=self.once)
        if self.once:
            yield from _more_ends_than_one(facts)


def _in_the_lake_again(facts: Facts, *, kept: bool, once: bool) -> Iterator[str]:
    """A replay may bring a second retry of a record; so may one that isn't produced `once`."""
    for name in sorted(facts.incarnations):
        written = [r for b in facts.published.values() if b.incarnation == name for r in b.records]
        if (again := _twice(written)) and not facts.may_repeat_within:
            yield f"twice within incarnation {name}: {listed(again)}"
    written = [facts.first.get(r, r) for b in facts.published.values() for r in b.records]
    may_repeat = NONE if once else facts.retried
    if kept and (again := (_twice(written) & facts.kept_still) - may_repeat):
        yield f"twice, and nobody moved the partition: {listed(again)}"


def _more_ends_than_one(facts: Facts) -> Iterator[str]:
    excepted = facts.retried - facts.kept_still
    for name in sorted(facts.incarnations):
        buried, gone = facts.buried(name), facts.gone(name)
        if again := {r for r, times in facts.dead.get(name, {}).items() if times > 1} - excepted:
            yield f"dead letters twice within incarnation {name}: {listed(again)}"
        if both := ((facts.written(name) & (buried | gone)) | (buried & gone)) - excepted:
            yield f"several ends within incarnation {name}: {listed(both)}"
    times = {r: sum(dead.get(r, 0) for dead in facts.dead.values()) for r in facts.buried()}
    if again := {r for r, number in times.items() if number > 1} & facts.kept_still:
        yield f"dead letters twice, and nobody moved the partition: {listed(again)}"
    if both := facts.written() & facts.buried() & facts.kept_still:
        yield f"in the lake and in the dead-letter topic, and nobody moved the partition: {listed(both)}"


def _twice(records: list[At]) -> Records:
    seen: set[At] = set()
    return frozenset(r for r in records if r in seen or seen.add(r))  # type: ignore[func-returns-value]
