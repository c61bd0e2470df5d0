"""Transforms that acknowledge records, and that keep a state."""

import json
import os
import time
from pathlib import Path

from pyspark.sql import DataFrame

from tidegate_spark import BatchContext, Outcome


def up_to_a_gap(records: DataFrame, batch: BatchContext) -> Outcome:
    """Acknowledges offsets 0 to 4 as it goes, and at the end 6 and later: 5 is left."""
    batch.acknowledge(records.filter("offset < 5"))
    return Outcome(rows=records, acks=records.filter("offset > 5"))


def then_fails(records: DataFrame, batch: BatchContext) -> DataFrame:
    """Acknowledges offsets 0 to 4, waits to be committed, and fails; whoever gets only the rest ends well."""
    if records.filter("offset < 5").isEmpty():
        return records
    batch.acknowledge(records.filter("offset < 5"))
    records.mapInPandas(_slowly, records.schema).write.format("noop").mode("overwrite").save()
    raise RuntimeError("no memory")


def fails_at_once(records: DataFrame, batch: BatchContext) -> DataFrame:
    """As `then_fails`, before anybody has looked at what it acknowledged."""
    if records.filter("offset < 5").isEmpty():
        return records
    batch.acknowledge(records.filter("offset < 5"))
    raise RuntimeError("no memory")


def nothing(records: DataFrame, batch: BatchContext) -> DataFrame:
    """Acknowledges the first record and is busy with the others."""
    batch.acknowledge(records.filter("offset < 1"))
    records.mapInPandas(_slowly, records.schema).write.format("noop").mode("overwrite").save()
    return records


def counting(records: DataFrame, batch: BatchContext) -> Outcome:
    """Keeps how many records there were in all batches."""
    before = batch.state or {"records": 0}
    return Outcome(rows=records, state={"records": before["records"] + records.count()})


def step_by_step(records: DataFrame, batch: BatchContext) -> DataFrame:
    """Acknowledges what the folder STEPS says, and after each step waits until somebody has seen to it."""
    folder = Path(os.environ["STEPS"])
    for number, step in enumerate(json.loads((folder / "steps.json").read_text())):
        places = [f"partition = {at} AND offset IN ({', '.join(map(str, offsets))})" for at, offsets in step.items()]
        batch.acknowledge(records.filter(" OR ".join(places)))
        (folder / f"acknowledged-{number}").touch()
        deadline = time.monotonic() + 120
        while not (folder / f"seen-{number}").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody looked at step {number}")
            time.sleep(0.02)
    return records


def _slowly(parts):  # type: ignore[no-untyped-def] # of pandas frames, which this module doesn't import
    import time  # noqa: PLC0415 (a worker's)

    for part in parts:
        time.sleep(4)
        yield part
