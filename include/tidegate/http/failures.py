"""Attempts that failed: why, in words, and which of a delivery's records they are still the last word about."""

from collections.abc import Callable, Iterable

from tidegate.http.sender import Outcome
from tidegate.model.offsets import TopicPartition

_TOLD_OF_AN_ANSWER = 200  # its first characters, in a reason


class Failures:
    """The last failed attempts of records that are tried again; `said` is told of the first one with each status."""

    def __init__(self, said: Callable[[str], None]) -> None:
        self._said = said
        self._told: set[int | None] = set()
        self._open: dict[tuple[TopicPartition, int], Outcome] = {}

    def note(self, outcome: Outcome) -> None:
        """One more, whose record is tried again."""
        self._open.pop(_place(outcome), None)
        self._open[_place(outcome)] = outcome
        if outcome.status not in self._told:
            self._told.add(outcome.status)
            self._said(f"{told(outcome)}; it is sent again, and other failures of this kind aren't told")

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """These records are tried no more."""
        for outcome in outcomes if self._open else ():
            self._open.pop(_place(outcome), None)

    @property
    def last(self) -> Outcome | None:
        """The last attempt of all; None where no record waits that has failed."""
        return next(reversed(self._open.values()), None)


def told(outcome: Outcome) -> str:
    """Which record failed, and why: `orders-0 at 3: HTTP status 500 after 2 attempts: no room`."""
    at, offset = _place(outcome)
    return f"{at} at {offset}: {reason(outcome)}"


def reason(outcome: Outcome) -> str:
    """Why a record was given up, as its dead letter says it."""
    times = "1 attempt" if outcome.attempts == 1 else f"{outcome.attempts} attempts"
    if outcome.status is None:
        return f"no answer after {times}: {outcome.reason}"
    first = "".join(each if each.isprintable() else " " for each in outcome.first.decode(errors="replace"))
    said = "; ".join(filter(None, (first.strip()[:_TOLD_OF_AN_ANSWER], outcome.reason)))
    return f"HTTP status {outcome.status} after {times}" + (f": {said}" if said else "")


def _place(outcome: Outcome) -> tuple[TopicPartition, int]:
    message = outcome.request.message
    return message.at, message.offset
