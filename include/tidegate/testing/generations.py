"""Generations of batches in memory."""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from tidegate.ports import FIRST, Generation, GenerationOutcome, Ledger, Made, ReprocessedBatch


class MemoryGenerations:
    """The port `Generations` for one process, beside a ledger that knows the batches."""

    def __init__(self, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._now = now
        self._known: dict[str, dict[int, Generation]] = defaultdict(dict)
        self._lock = threading.RLock()

    def begin(self, batch_id: str, output: str, by: str, note: str, beyond: int) -> Generation:
        """See `tidegate.ports.Generations`."""
        self._ledger.batch(batch_id)
        with self._lock:
            known, token = self._known[batch_id], uuid.uuid4().hex
            found = next((each for each in known.values() if each.is_open), None)
            if found is not None and found.output == output and found.number > beyond:
                known[found.number] = replace(found, tokens=(*found.tokens, token))
                return known[found.number]
            if found is not None:
                known[found.number] = replace(found, outcome=GenerationOutcome.GIVEN_UP, ended_at=self._now())
            number = max([FIRST, beyond, *known]) + 1
            known[number] = Generation(batch_id, number, output, by, self._now(), note, (token,))
            return known[number]

    def end(self, batch_id: str, number: int, made: Made) -> Generation:
        """See `tidegate.ports.Generations`."""
        with self._lock:
            found = self._known[batch_id][number]
            if found.is_open:
                found = replace(found, outcome=GenerationOutcome.REPLACED, ended_at=self._now(), made=made)
                self._known[batch_id][number] = found
            return found

    def fail(self, generation: Generation) -> None:
        """See `tidegate.ports.Generations`."""
        with self._lock:
            found = self._known[generation.batch_id][generation.number]
            if found.is_open and found.tokens == generation.tokens and len(found.tokens) == 1:
                failed = replace(found, outcome=GenerationOutcome.FAILED, ended_at=self._now())
                self._known[generation.batch_id][generation.number] = failed

    def of(self, batch_id: str) -> tuple[Generation, ...]:
        """See `tidegate.ports.Generations`."""
        with self._lock:
            return tuple(each for _, each in sorted(self._known[batch_id].items()))

    def reprocessed(self, subscription: str) -> tuple[ReprocessedBatch, ...]:
        """See `tidegate.ports.Generations`."""
        found: list[ReprocessedBatch] = []
        with self._lock:
            for batch in map(self._ledger.batch, list(self._known)):
                if batch.subscription != subscription:
                    continue
                own = [each for each in self.of(batch.id) if each.output == batch.output]
                there = [each for each in own if each.outcome is GenerationOutcome.REPLACED]
                perhaps = [each for each in own if each.is_open]
                found += [
                    ReprocessedBatch(batch.id, each.number, batch.ranges, each.is_open)
                    for each in (*there[-1:], *perhaps)
                ]
        return tuple(found)
