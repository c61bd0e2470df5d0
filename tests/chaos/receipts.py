"""The audit of what was delivered over HTTP: everything at least once, in order, and twice only what was under way.

It is a pure function of what the receiver has noted and of the ledger's batches, like `chaos.audit`, which is about
the rows in the lake.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.audit import NAMED, Records, Verdict, examples
from chaos.evidence import history_of
from chaos.producing import Numbers
from chaos.receiver import Integers, Received, read_received
from chaos.tasks import Place


@dataclass(frozen=True)
class Sent:
    """A batch: its half-open range of offsets by partition, and how many deliveries of it were begun."""

    id: str
    ranges: Mapping[int, tuple[int, int]]
    deliveries: int


@dataclass(frozen=True)
class Receipts:
    """What was found when all was over.

    `acknowledged` are the records that a producer was told are in the topic (and committed), `uncertain` those of
    which it never learned. Of a partition `at_once` requests are under way at once, the `concurrency-factor`.
    """

    acknowledged: Records
    uncertain: Records
    received: Received
    batches: Sequence[Sent]
    at_once: int


def gather_receipts(place: Place, numbers: Numbers) -> Receipts:
    """All that the audit needs."""
    acknowledged, uncertain = numbers.told()
    return Receipts(
        acknowledged=acknowledged,
        uncertain=uncertain,
        received=read_received(place.received, place.kind.name),
        batches=[
            Sent(line.batch.id, {r.partition: (r.start, r.end) for r in line.batch.ranges}, line.deliveries)
            for line in history_of(place)
        ],
        at_once=place.kind.at_once,
    )


def audit_receipts(found: Receipts) -> Verdict:
    """Compare what was received with what must be.

    Duplicates are requests that came again and can't have been under way: each delivery of a batch after its first,
    and each restart of the receiver amid a batch, repeats `at_once` records of a partition at most. Strangers are
    records of aborted transactions, or of none, and those that came under several keys. Where only one is under way at
    once, a record that comes after a later one of its partition is disorder.
    """
    received = found.received
    every = received.records
    once = np.unique(every)
    lost = np.setdiff1d(found.acknowledged, once)
    strange = np.setdiff1d(once, np.union1d(found.acknowledged, found.uncertain))
    keys = np.unique(np.stack([every, received.offsets]), axis=1)[0]
    renamed = keys[1:][keys[1:] == keys[:-1]]
    excess = list(_excess(found))
    disorder = list(_disorder(received)) if found.at_once == 1 else []
    return Verdict(
        losses=lost.size,
        duplicates=sum(number for number, _ in excess),
        strangers=strange.size + renamed.size,
        lag=0,
        open_batches=0,
        orphans=0,
        disorder=len(disorder),
        repeats=every.size - once.size,
        examples=(
            *examples("never received", lost),
            *examples("received, though it doesn't count", strange),
            *examples("received under several keys", renamed),
            *[said for _, said in excess][:NAMED],
            *disorder[:NAMED],
        ),
    )


def _excess(found: Receipts) -> Iterator[tuple[int, str]]:
    """How many requests too many there were for a partition of a batch, and that in words."""
    received = found.received
    arrivals = {int(p): np.flatnonzero(received.partitions == p) for p in np.unique(received.partitions)}
    by_offset = {p: each[np.argsort(received.offsets[each], kind="stable")] for p, each in arrivals.items()}
    for batch in found.batches:
        for partition, (start, end) in batch.ranges.items():
            every = by_offset.get(partition, np.array([], np.int64))
            cut = np.searchsorted(received.offsets[every], [start, end])
            mine = every[cut[0] : cut[1]]
            repeats = mine.size - np.unique(received.offsets[mine]).size
            interruptions = max(0, batch.deliveries - 1) + _restarts_within(received.restarts, mine)
            if repeats > found.at_once * interruptions:
                said = f"batch {batch.id}, partition {partition}: {repeats} requests came again in {interruptions}"
                yield (
                    repeats - found.at_once * interruptions,
                    f"{said} interruptions, {found.at_once} under way at once",
                )


def _restarts_within(restarts: Integers, arrivals: Integers) -> int:
    """How often the receiver was started anew between the first and the last of these arrivals."""
    if not arrivals.size:
        return 0
    return int(((restarts > arrivals.min()) & (restarts <= arrivals.max())).sum())


def _disorder(received: Received) -> Iterator[str]:
    """Each request behind one for a later record of its partition."""
    for partition in np.unique(received.partitions):
        offsets = received.offsets[received.partitions == partition]
        latest = np.maximum.accumulate(offsets)
        for late in np.flatnonzero(offsets < latest):
            yield f"out of order: offset {offsets[late]} of partition {partition} came after {latest[late]}"
