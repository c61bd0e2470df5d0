"""The audit of a subscription that commits nothing: each run reads from the beginning, each batch stands for itself.

A batch is in the lake once, under its own id, and holds the records of its ranges, each of them once; nobody moves the
group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.audit import Verdict, partitions_of
from chaos.evidence import gather
from chaos.outputs import Ranges
from chaos.positions import kafka_lags
from chaos.producing import Numbers
from chaos.tasks import Place
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome

Offsets = npt.NDArray[np.int64]
_ALL = 1_000_000
_SAID = "{} lost, {} doubled, {} strange, {} skipped"


@dataclass(frozen=True)
class Reread:
    """One batch: its half-open range of each partition, and the offsets of its rows, each as often as it has rows."""

    ranges: Mapping[int, tuple[int, int]]
    rows: Mapping[int, Offsets]


@dataclass(frozen=True)
class Rereads:
    """What was found when all was over.

    `acknowledged` has the offsets of acknowledged records by partition, and `unsure` whether others may be there too.
    `closed` are the batches that the ledger has as published, `batches` those in the lake, by id. `moved` is how many
    partitions of the group have a position.
    """

    acknowledged: Mapping[int, Offsets]
    batches: Mapping[str, Reread]
    closed: frozenset[str]
    unsure: bool = False
    moved: int = 0
    open_batches: Sequence[str] = ()
    orphans: Sequence[str] = field(default_factory=tuple)


def gather_rereads(place: Place, numbers: Numbers) -> Rereads:
    """All that the audit needs."""
    found = gather(place, numbers)
    told, at = np.array(numbers.acknowledged, np.int64), np.array(numbers.offsets, np.int64)
    partitions = partitions_of(told)
    history = SqlLedger(place.ledger).history(place.kind.name, _ALL)
    return Rereads(
        acknowledged={int(p): np.sort(at[partitions == p]) for p in np.unique(partitions)},
        unsure=bool(found.uncertain.size),
        batches={name: _read(ranges, rows) for name, (ranges, rows) in place.output.batches().items()},
        closed=frozenset(line.batch.id for line in history if line.batch.outcome is Outcome.UNCOMMITTED),
        moved=sum(lag.committed is not None for lag in kafka_lags(place)),
        open_batches=found.open_batches,
        orphans=[*sorted(found.landed - found.named), *sorted(found.staged)],
    )


def audit_rereads(found: Rereads) -> Verdict:
    """Compare what was found with what must be; a group that was moved counts as lag, as a start elsewhere does."""
    losses = duplicates = strangers = lag = 0
    examples = []
    for name, batch in sorted(found.batches.items()):
        for partition, (start, end) in sorted(batch.ranges.items()):
            rows = batch.rows.get(partition, np.array([], np.int64))
            told = found.acknowledged.get(partition, np.array([], np.int64))
            once = np.unique(rows)
            due = told[(told >= start) & (told < end)]
            outside = once[(once < start) | (once >= end)]
            unknown = outside if found.unsure else np.setdiff1d(once, due)
            wrong = (np.setdiff1d(due, once).size, rows.size - once.size, unknown.size, start)
            losses, duplicates = losses + wrong[0], duplicates + wrong[1]
            strangers, lag = strangers + wrong[2], lag + wrong[3]
            if any(wrong):
                examples.append(f"batch {name}, partition {partition} from {start} to {end}: {_SAID.format(*wrong)}")
    unlike = sorted(found.closed ^ found.batches.keys())
    return Verdict(
        losses=losses + len(found.closed - found.batches.keys()),
        duplicates=duplicates,
        strangers=strangers + len(found.batches.keys() - found.closed),
        lag=lag + found.moved,
        open_batches=len(found.open_batches),
        orphans=len(found.orphans),
        examples=(
            *examples,
            *(f"batch {name} is in the lake or in the ledger, and not in both" for name in unlike),
            *([f"{found.moved} partitions of the group were moved"] if found.moved else []),
            *(f"open: batch {batch}" for batch in found.open_batches),
            *(f"orphan: {path}" for path in found.orphans),
        ),
    )


def _read(ranges: Ranges, rows: pa.Table | None) -> Reread:
    if rows is None:
        return Reread(ranges, {})
    partitions, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    return Reread(ranges, {int(p): offsets[partitions == p] for p in np.unique(partitions)})
