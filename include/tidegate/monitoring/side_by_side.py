"""Observing subscriptions side by side: one that takes long, or breaks, keeps none of the others waiting."""

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from tidegate.config.settings import Settings
from tidegate.ledger.alerts import AlertLog
from tidegate.ledger.observations import Observation, Observations
from tidegate.model.errors import UnavailableError
from tidegate.monitoring.observing import Refused, observe
from tidegate.ports import Connections
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.looks import looks

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Sighting:
    """What came of looking at one subscription: an observation, or why there is none.

    `began_at` is when the look began, by the ledger's clock.
    """

    subscription: str
    began_at: datetime
    seen: Observation | None = None
    error: Exception | None = None


def observe_side_by_side(
    names: Sequence[str], settings: Settings, connections: Connections, seconds: float
) -> Iterator[Sighting]:
    """Look at each subscription, and tell of each when that is done, at the latest when the seconds are over.

    Those that nobody has seen for longest come first: each has its turn, however many brokers are away. A thread that
    hangs is left to itself, and ends with the process. Raises UnavailableError or UnusableLedgerError if the ledger
    can't be used at the start.
    """
    clock, refused = AlertLog(settings.ledger), AllDefinitions(settings).refused()
    left = dict.fromkeys(names, clock.now())
    times = Observations(settings.ledger).times()
    sight = partial(_sighting, settings=settings, connections=connections, clock=clock, refused=refused)
    begun = looks(sorted(names, key=lambda name: times.get(name, _NEVER)), sight)
    with suppress(TimeoutError):
        for look in as_completed(begun.values(), seconds):
            sighting = look.result()
            del left[sighting.subscription]
            yield sighting
    for name, began_at in left.items():
        yield Sighting(name, began_at, error=UnavailableError(f"it took longer than {seconds:.0f} s to look at it"))


def _sighting(
    name: str, *, settings: Settings, connections: Connections, clock: AlertLog, refused: Refused
) -> Sighting:
    began_at = datetime.now(UTC)
    try:
        began_at = clock.now()
        return Sighting(name, began_at, seen=observe(name, settings, connections, refused))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one is told of that one
        return Sighting(name, began_at, error=error)
