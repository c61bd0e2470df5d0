"""Positions in Kafka and the half-open ranges between them.

An offset is always the next one to read. Offsets are not dense (compaction, transaction markers), so the size
of a range bounds the number of its records and never tells it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Kafka's own short form, `topic-partition`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What a partition holds: from `earliest` to `end`, which is the first offset that can't be read yet.

    `end` is the high watermark, or the last stable offset under `isolation.level: read_committed`.
    """

    earliest: int
    end: int

    def __str__(self) -> str:
        """`[100, 120)`."""
        return f"[{self.earliest}, {self.end})"

    def holds(self, offset: int) -> bool:
        """Whether a group may stand there: at a record that is there, or at the end."""
        return self.earliest <= offset <= self.end

    def nearest(self, offset: int) -> int:
        """The offset of those at which a group may stand that is nearest to this one."""
        return min(max(offset, self.earliest), self.end)

    def behind(self, offset: int) -> int:
        """How many offsets there are to read from this one on."""
        return self.end - self.nearest(offset)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The offsets `[start, end)` of one partition.

    The leader epochs, where they are known, tell a broker which history of the partition the offsets belong to
    (KIP-320); they say nothing about which records are meant, so ranges that differ only there are equal.
    """

    topic: str
    partition: int
    start: int
    end: int
    start_epoch: int | None = field(default=None, compare=False)
    end_epoch: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"no range: {self.topic}-{self.partition} [{self.start}, {self.end})")

    def __str__(self) -> str:
        """`flights-0 [0, 500)`."""
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"

    @property
    def at(self) -> TopicPartition:
        """The partition that the range lies in."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing between start and end."""
        return self.start == self.end


def starts(ranges: Iterable[Range]) -> dict[TopicPartition, int]:
    """The first offset of each range, by partition."""
    return {r.at: r.start for r in ranges}


def ends(ranges: Iterable[Range]) -> dict[TopicPartition, int]:
    """The next offset after each range, by partition."""
    return {r.at: r.end for r in ranges}


def end_epochs(ranges: Iterable[Range]) -> dict[TopicPartition, int]:
    """The leader epoch at the end of each range, by partition, as far as it is known."""
    return {r.at: r.end_epoch for r in ranges if r.end_epoch is not None}


def split_cap(cap: int, lags: Mapping[TopicPartition, int], turn: int = 0) -> dict[TopicPartition, int]:
    """How many offsets each partition may give to a batch of at most `cap`, in proportion to its lag.

    As Spark's `maxOffsetsPerTrigger`, each partition with a lag gets one offset at least, so that one record on
    one of many partitions is taken (10 over lags of 101, 11 and 1 gives 8, 1, 1). Unlike Spark's, the shares never
    add up to more than the cap. Where there are more partitions than offsets to give, each in turn gets one,
    beginning with number `turn`, so that no partition starves.
    """
    waiting = {at: lag for at, lag in sorted(lags.items()) if lag > 0}
    total = sum(waiting.values())
    if total <= cap:
        return waiting
    if cap <= len(waiting):
        order = list(waiting)
        first = turn % len(order)
        return dict.fromkeys((order[first:] + order[:first])[:cap], 1)
    shares = _in_proportion(cap, waiting)
    _hand_out(shares, waiting, cap - sum(shares.values()))
    return shares


def _in_proportion(cap: int, lags: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """One to each whose share would be less, and to the others their proportion of the rest, rounded down."""
    ones: set[TopicPartition] = set()
    while True:
        others = {at: lag for at, lag in lags.items() if at not in ones}
        rest, total = cap - len(ones), sum(others.values())
        small = {at for at, lag in others.items() if lag * rest < total}
        if not small:
            return dict.fromkeys(ones, 1) | {at: lag * rest // total for at, lag in others.items()}
        ones |= small


def _hand_out(shares: dict[TopicPartition, int], lags: Mapping[TopicPartition, int], rest: int) -> None:
    """Give the rest that rounding left to those with the longest lag."""
    for at in sorted(shares, key=lambda at: shares[at] - lags[at]):
        given = max(0, min(rest, lags[at] - shares[at]))
        shares[at] += given
        rest -= given


def assign(partitions: Sequence[TopicPartition], members: int) -> tuple[tuple[TopicPartition, ...], ...]:
    """Kafka's range assignment: for each topic, consecutive partitions to each member, the first ones take more.

    Two topics of three partitions and two members: member 0 gets t0p0, t0p1, t1p0, t1p1, member 1 t0p2, t1p2.
    """
    shares: list[list[TopicPartition]] = [[] for _ in range(members)]
    for topic in sorted({at.topic for at in partitions}):
        of_topic = sorted(at for at in partitions if at.topic == topic)
        each, more = divmod(len(of_topic), members)
        begin = 0
        for member in range(members):
            size = each + (member < more)
            shares[member] += of_topic[begin : begin + size]
            begin += size
    return tuple(tuple(share) for share in shares)
