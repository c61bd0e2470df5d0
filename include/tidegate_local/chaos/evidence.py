"""What is found when all is over: in the topic, the lake, the landing and the ledger, as anybody could look."""

import time
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds
from confluent_kafka import KafkaException

from tidegate.ledger.sql import SqlLedger
from tidegate_local.chaos.audit import Evidence, Records, records
from tidegate_local.chaos.producing import Numbers
from tidegate_local.chaos.tasks import SUBSCRIPTION, Place
from tidegate_local.chaos.world import GROUP, TOPIC
from tidegate_local.lag import group_lag

_ALL = 1_000_000
_ANSWER_SECONDS = 60
_PAUSE_SECONDS = 0.2


def is_settled(place: Place) -> bool:
    """Whether the group has no lag and no batch is open."""
    committed, ends = positions(place)
    return committed == ends and SqlLedger(place.ledger).look(SUBSCRIPTION).open is None


def gather(place: Place, numbers: Numbers) -> Evidence:
    """All that the audit needs."""
    acknowledged, uncertain = numbers.told()
    committed, ends = positions(place)
    ledger = SqlLedger(place.ledger)
    still_open = ledger.look(SUBSCRIPTION).open
    history = ledger.history(SUBSCRIPTION, _ALL)
    landing = Path(place.settings.landing.removeprefix("file://")) / SUBSCRIPTION
    lake = place.folder / "lake"
    return Evidence(
        acknowledged=acknowledged,
        uncertain=uncertain,
        lake=in_lake(lake),
        committed=committed,
        ends=ends,
        open_batches=[still_open.id] if still_open else [],
        landed=frozenset(str(path) for path in landing.glob("*/member-*/**/*") if path.is_file()),
        named=frozenset(file.uri.removeprefix("file://") for line in history for file in line.batch.files),
        staged=[str(path) for below in ("_staging", "_abandoned") for path in lake.glob(f"{below}/*")],
    )


def in_lake(lake: Path) -> Records:
    """The records that a reader of the lake sees: those in `batch_id=*/`."""
    files = [str(path) for path in lake.glob("batch_id=*/*.parquet")]
    if not files:
        return np.array([], np.int64)
    rows = ds.dataset(files).to_table(["value", "partition"])
    numbers = pc.cast(pc.cast(rows["value"], "string"), "int64")
    return records(numbers.to_numpy(), rows["partition"].to_numpy())


def positions(place: Place) -> tuple[dict[int, int], dict[int, int]]:
    """The group's committed offsets and the ends of the logs, markers included, by partition.

    Asks again while a broker that was just started loads the group. Raises KafkaException without an answer in time.
    """
    until = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            lags = group_lag(place.bootstrap, GROUP, TOPIC)
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return {each.partition: each.committed or 0 for each in lags}, {each.partition: each.end for each in lags}


def history_lines(place: Place) -> list[str]:
    """The ledger's batches, oldest first, for whoever looks into what went wrong."""
    lines = []
    for each in reversed(SqlLedger(place.ledger).history(SUBSCRIPTION, _ALL)):
        batch = each.batch
        ranges = ", ".join(str(r) for r in batch.ranges)
        winner = batch.delivery.token if batch.delivery else None
        lines.append(
            f"{each.opened_at.isoformat()} {each.closed_at.isoformat() if each.closed_at else '-'} {batch.id} "
            f"{batch.state} receipt '{batch.receipt}' {each.deliveries} deliveries, won by {winner} attempt "
            f"{batch.attempt}; {batch.landed_records} records: {ranges}; {batch.reason or ''}"
        )
    return lines
