"""What a run came to, in a few words for the list of runs: its batch, ranges, records, and the lag as last seen."""

from tidegate.ledger.observations import Observation
from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError

LONGEST = 1_000
"""Characters, as many as Airflow takes of a note."""
_RANGES = 5
_LONGEST_REASON = 500


def run_note(batch: Batch, seen: Observation | None) -> str:
    """`batch X: committed; orders-0 0-10; 10 records, 9 rows, 1 rejected; lag 1,234 at 12:05:00 UTC`."""
    parts = [f"batch {batch.id}: {batch.condition}", _ranges(batch), f"{batch.landed_records:,} records{_rows(batch)}"]
    if seen is not None and seen.lag is not None:
        parts.append(f"lag {seen.lag:,} at {seen.observed_at:%H:%M:%S} UTC")
    return "; ".join(parts)[:LONGEST]


def failed_note(batch_id: str, error: TidegateError) -> str:
    """`batch X: delivery 1 of 3 failed: ...`, the first line of the error."""
    return f"batch {batch_id}: {str(error).partition(chr(10))[0][:_LONGEST_REASON]}"


def _ranges(batch: Batch) -> str:
    taken = [each for each in batch.ranges if not each.is_empty]
    more = f" and {len(taken) - _RANGES} more" if taken[_RANGES:] else ""
    return ", ".join(f"{each.at} {each.start}-{each.end}" for each in taken[:_RANGES]) + more


def _rows(batch: Batch) -> str:
    return "" if batch.rows is None else f", {batch.rows:,} rows, {batch.rejected or 0:,} rejected"
