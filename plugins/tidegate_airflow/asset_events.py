"""The events of a subscription's output asset: each published batch is in one of them, whatever became of its run.

Airflow keeps an event as soon as the task that sends it is a success, and not before. So what it has is the record of
what was announced, and a batch that it lacks, because its run died once it had published, goes with the next event.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from tidegate_airflow.assets import without_password

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

    from tidegate.model.batch import Batch

EARLIER: Final = "earlier"
"""Key of an event's extra: the batches before, whose own event Airflow never got; the oldest first."""
LOOKED_BACK: Final = 20
"""How many of the newest batches are looked at for such."""

_EVENTS = 50  # of one asset, among which those of the newest batches are looked for
_RANGES = 100  # which an event has at most: the batch's manifest has them all

Announcement = dict[str, Any]
"""A batch in an event's extra, as JSON."""


def announcement(batch: "Batch") -> Announcement:
    """What an event says of a published batch."""
    from tidegate.model.output_uri import batch_place, parse_output  # noqa: PLC0415 (nothing of this at parse time)

    return {
        "batch_id": batch.id,
        "number": batch.next_receipt.number,
        "subscription": batch.subscription,
        "uri": without_password(parse_output(batch_place(batch.output, batch.id)).public_uri),
        "state": batch.condition,
        "records": batch.landed_records,
        "rows": batch.rows,
        "rejected": batch.rejected,
        **bounded_ranges(batch, _RANGES),
    }


def bounded_ranges(batch: "Batch", most: int) -> dict[str, Any]:
    """The batch's ranges that hold something, as JSON, so many at most, and how many were left out."""
    from tidegate.model.manifest import ranges_to_json  # noqa: PLC0415 (see above)

    ranges = [each for each in ranges_to_json(batch) if each["start"] < each["end"]]
    return {"ranges": ranges[:most], "ranges_left_out": max(0, len(ranges) - most)}


def unannounced(asset: "Asset", newest: Sequence["Batch"]) -> list[Announcement]:
    """Those of the newest published batches, the newest first, that came after the last announced one; oldest first."""
    if not newest:
        return []
    known = _announced(asset)
    missing = list(takewhile(lambda batch: batch.id not in known, newest))
    return [announcement(batch) for batch in reversed(missing)]


def announce(context: "Context", asset: "Asset", batches: Iterable[Announcement]) -> bool:
    """Have the task's success send an event of those of these batches that Airflow has none of; whether it will.

    The oldest batch comes first.
    """
    given = list(batches)
    known = _announced(asset) if given else frozenset()
    new = [batch for batch in given if batch["batch_id"] not in known]
    if not new:
        return False
    *earlier, newest = new
    context["outlet_events"][asset].extra = newest | ({EARLIER: earlier} if earlier else {})
    return True


def _announced(asset: "Asset") -> frozenset[str]:
    """The ids of the batches in the newest events of the asset."""
    from airflow.sdk.execution_time.context import InletEventsAccessors  # noqa: PLC0415 (see above)

    events = InletEventsAccessors([asset])[asset].ascending(ascending=False).limit(_EVENTS)
    told = [batch for event in events for batch in (event.extra, *event.extra.get(EARLIER, ()))]
    return frozenset(str(batch["batch_id"]) for batch in told if "batch_id" in batch)
