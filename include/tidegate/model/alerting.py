"""What a subscription alerts about, and whom: the `alerts:` section of a definition."""

from dataclasses import dataclass
from typing import Literal, get_args

AlertState = Literal["stopped", "asked", "unreachable", "stalled", "rewound", "warn"]
"""What may alert without a threshold: verdicts of `tidegate status`; asked is a batch that waits for an answer."""
ALL_STATES: tuple[AlertState, ...] = get_args(AlertState)
ALERT_STATES: tuple[AlertState, ...] = ("stopped", "asked", "unreachable", "stalled")
"""Those that do by default: what nobody but a person ends, and brokers that don't answer."""


@dataclass(frozen=True)
class AlertProperties:
    """The section `alerts`: nobody is told where `notify` is empty.

    `notify` are notifiers as `module:name`. Thresholds are in records and milliseconds, None for none.
    """

    notify: tuple[str, ...] = ()
    states: tuple[AlertState, ...] = ALERT_STATES
    lag_records: int | None = None
    lag_ms: int | None = None
    open_batch_ms: int | None = None
    resolved: bool = False
