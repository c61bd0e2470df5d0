"""The timeouts of a subscription and the rules between them, from Hitachi's Kafka inbound adapter.

T1 idle, T2 longest delivery, T3 metadata age, T4 poll, T5 commit, T6 to T11 connecting and fetching. What the
text demands is an error here, what it recommends a warning. All values are milliseconds.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidegate.model.subscription import CLOSING_MS, Severity

T1 = "consumer.connections.max.idle.ms"
T2 = "consumer.max.poll.interval.ms"
T3 = "consumer.metadata.max.age.ms"
T4 = "poll-timeout.ms"
T5 = "commit-timeout.ms"
T6 = "consumer.socket.connection.setup.timeout.max.ms"
T7 = "consumer.socket.connection.setup.timeout.ms"
T8 = "consumer.reconnect.backoff.max.ms"
T9 = "consumer.fetch.max.wait.ms"
T10 = "consumer.retry.backoff.ms"
T11 = "consumer.reconnect.backoff.ms"
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
EXECUTION = "execution-timeout.ms"

TIMEOUTS = (T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, SESSION, HEARTBEAT)


@dataclass(frozen=True)
class Breach:
    """A rule that doesn't hold. `properties` are those it compares, each with its value, the longer first.

    `text` may have `{0}`, `{1}` in their places.
    """

    rule: str
    severity: Severity
    properties: tuple[tuple[str, int], ...]
    text: str

    def message(self, defaults: Collection[str] = ()) -> str:
        """What is wrong, why, and what to set; `defaults` are the properties that nobody has given."""
        shown = (f"{name} ({value}{', the default' if name in defaults else ''})" for name, value in self.properties)
        return self.text.format(*shown)


def breaches(values: Mapping[str, int]) -> tuple[Breach, ...]:
    """The rules R1 to R5 that the values break. `values` has every name of TIMEOUTS."""
    rules = (_r1, _r2, _r3, _r4, _r5)
    return tuple(breach for rule in rules for breach in rule(values))


def execution_breach(execution_timeout_ms: int, values: Mapping[str, int]) -> Breach | None:
    """Rule R7: Airflow's execution timeout of a task must leave time for a whole run.

    A run is the wait for records and the landing (the poll timeout bounds each), the delivery, the commit
    and the closing of the consumer.
    """
    whole = least_execution_timeout_ms(values)
    if execution_timeout_ms > whole:
        return None
    text = (
        f"{EXECUTION} ({execution_timeout_ms}) must be longer than {whole}: twice {T4} ({values[T4]}), "
        f"{T2} ({values[T2]}), {T5} ({values[T5]}) and {CLOSING_MS} for closing"
    )
    named = ((EXECUTION, execution_timeout_ms), *((name, values[name]) for name in (T4, T2, T5)))
    return Breach("R7", "error", named, text)


def least_execution_timeout_ms(values: Mapping[str, int]) -> int:
    """How long a run may take from its start to its end when every one of its timeouts is used up."""
    return 2 * values[T4] + values[T2] + values[T5] + CLOSING_MS


def _r1(values: Mapping[str, int]) -> Iterator[Breach]:
    for longer, shorter in pairwise((T1, T3, T4, T6, T7, T8, T9, T10, T11)):
        if not _length(values[longer]) > _length(values[shorter]):
            yield _longer("R1", (longer, shorter), "so that it isn't over first", values)


def _r2(values: Mapping[str, int]) -> Iterator[Breach]:
    if not _length(values[T1]) > values[T2]:
        yield _longer("R2", (T1, T2), "or an idle connection is closed during a delivery", values)
    if values[T5] > values[T2]:
        yield _at_least("R2", (T2, T5), "or a commit may take longer than a delivery", values)
    elif values[T5] == values[T2]:
        yield _longer("R2", (T2, T5), "so that it isn't over first", values)


def _r3(values: Mapping[str, int]) -> Iterator[Breach]:
    parts = (T6, T7, T8, T9, T10, T11)
    whole = sum(values[part] for part in parts)
    if values[T4] > whole:
        return
    listed = " + ".join(f"{part} ({values[part]})" for part in parts)
    text = f"{T4} ({values[T4]}) should be longer than {whole}, the sum of {listed}, to connect and read once within it"
    yield Breach("R3", "warning", tuple((name, values[name]) for name in (T4, *parts)), text)


def _r4(values: Mapping[str, int]) -> Iterator[Breach]:
    for shorter in (T6, T7, T8, T11):
        if values[shorter] > values[T2]:
            yield _at_least("R4", (T2, shorter), "or connecting may take longer than a delivery", values)


def _r5(values: Mapping[str, int]) -> Iterator[Breach]:
    if 3 * values[HEARTBEAT] > values[SESSION]:
        why = "or a session may end after one lost heartbeat"
        yield _at_least("R5", (SESSION, HEARTBEAT), why, values, times=3)
    if values[SESSION] > values[T2]:
        yield _at_least("R5", (T2, SESSION), "or a session may outlast a delivery", values)


def _longer(rule: str, pair: tuple[str, str], why: str, values: Mapping[str, int]) -> Breach:
    text = f"{{0}} should be longer than {{1}}, {why}: {_remedy(pair, values[pair[1]] + 1)}"
    return Breach(rule, "warning", tuple((name, values[name]) for name in pair), text)


def _at_least(rule: str, pair: tuple[str, str], why: str, values: Mapping[str, int], *, times: int = 1) -> Breach:
    how = "at least as long as" if times == 1 else "at least three times as long as"
    text = f"{{0}} must be {how} {{1}}, {why}: {_remedy(pair, times * values[pair[1]])}"
    return Breach(rule, "error", tuple((name, values[name]) for name in pair), text)


def _remedy(pair: tuple[str, str], least: int) -> str:
    longer, shorter = pair
    return f"set {longer} to at least {least}, or lower {shorter}"


def _length(milliseconds: int) -> float:
    return math.inf if milliseconds < 0 else milliseconds  # -1: never closed for being idle
