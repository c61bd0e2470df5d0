"""Which batches read the record that a dead letter is of."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Generic, TypeVar

from tidegate.dead_letters.letter import Origin
from tidegate.model.offsets import Range, TopicPartition

_Batch = TypeVar("_Batch")


class BatchesByOrigin(Generic[_Batch]):
    """Batches by what they read; some may have read the same, as after a reset."""

    def __init__(self, batches: Iterable[tuple[_Batch, Sequence[Range]]]) -> None:
        found: dict[TopicPartition, list[tuple[int, int, _Batch]]] = defaultdict(list)
        for batch, ranges in batches:
            for each in ranges:
                found[each.at].append((each.start, each.end, batch))
        self._ranges = {at: sorted(several, key=itemgetter(0)) for at, several in found.items()}
        self._reached = {at: list(accumulate((end for _, end, _ in s), max)) for at, s in self._ranges.items()}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return not self._ranges

    def of(self, origin: Origin | None) -> Iterator[_Batch]:
        """Those that read this record; none where its origin isn't known."""
        if origin is None or origin.partition is None or origin.offset is None:
            return
        at = TopicPartition(origin.topic, origin.partition)
        ranges, reached = self._ranges.get(at, []), self._reached.get(at, [])
        before = bisect_right(ranges, origin.offset, key=itemgetter(0))
        while before and reached[before - 1] > origin.offset:
            before -= 1
            _, end, batch = ranges[before]
            if origin.offset < end:
                yield batch
