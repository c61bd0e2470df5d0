"""What a run came to, in a few words for the list of runs: its batch, ranges, records, and the lag behind it."""

from collections.abc import Iterable

from tidegate.model.batch import Batch
from tidegate.model.counting import counted, first_of
from tidegate.model.errors import BatchFailedError, TidegateError

LONGEST = 1_000
"""Characters, as many as Airflow takes of a note."""
_RANGES = 5
_LONGEST_REASON = 500


def run_note(batch: Batch, lag: int | None) -> str:
    """`batch X: committed; orders-0 0-10; 10 records, 9 rows, 1 rejected; lag 1,234`; without a lag for None."""
    parts = [
        f"batch {batch.id}: {batch.condition}",
        _ranges(batch),
        counted(batch.landed_records, "record") + _rows(batch),
    ]
    if lag is not None:
        parts.append(f"lag {lag:,}")
    return "; ".join(parts)[:LONGEST]


def failed_note(batch_id: str, error: TidegateError) -> str:
    """`batch X: delivery 1 of 3 failed: ...`, the first line of the error."""
    return f"batch {batch_id}: {_first_line(str(error))}"


def is_explained(error: TidegateError, earlier: Iterable[str]) -> bool:
    """Whether a batch isn't settled for what one of these failed notes of earlier steps says, and the error doesn't."""
    reasons = [note.partition(": ")[2] for note in earlier]
    return isinstance(error, BatchFailedError) and bool(reasons) and not any(each in str(error) for each in reasons)


def unplanned_note(why: str) -> str:
    """`no batch: there is nothing to read`, the first line of the reason or error."""
    return f"no batch: {_first_line(why)}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:_LONGEST_REASON]


def _ranges(batch: Batch) -> str:
    taken = [f"{each.at} {each.start}-{each.end}" for each in batch.ranges if not each.is_empty]
    return first_of(taken, _RANGES)


def _rows(batch: Batch) -> str:
    return "" if batch.rows is None else f", {counted(batch.rows, 'row')}, {batch.rejected or 0:,} rejected"
