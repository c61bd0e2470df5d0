"""Prune: remove landings and ledger rows of batches that are in the lake, once they are older than their retention."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import ExpiredBatch, Landing, Ledger

_PAGE = 200  # batches that are looked at together


@dataclass(slots=True)
class Pruned:
    """What was removed, or would be: how many batches and files of their landings, and when the batches ended.

    `kept` are the ids of batches whose landing can't be used, by what is to be mended.
    """

    batches: int = 0
    files: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    kept: dict[str, list[str]] = field(default_factory=dict)

    def add(self, closed_at: datetime, sizes: list[int], *, counts: bool = True) -> None:
        """Add files of a batch, and, if it `counts`, the batch."""
        self.files += len(sizes)
        self.bytes += sum(sizes)
        if counts:
            self.batches += 1
            self.oldest = min(self.oldest or closed_at, closed_at)
            self.newest = max(self.newest or closed_at, closed_at)


def prune(
    subscription: str, retention_ms: int, into: Pruned, *, landing: Landing, ledger: Ledger, dry_run: bool = False
) -> None:
    """Remove what a subscription has kept for longer than its retention, and count it; 0 is for ever.

    Of each batch the files go first, then its rows: whoever is killed in between leaves rows, and the next one finds
    the batch by them. Two at a time remove each batch once. One whose landing's connection is gone or refused keeps no
    other. What is counted stays counted if an error is raised: UnavailableError where landing or ledger don't answer.
    """
    if not retention_ms:
        return
    before = ledger.now() - timedelta(milliseconds=retention_ms)
    for batch in _expired(subscription, before, ledger):
        try:
            found = (landing.stored if dry_run else landing.discard)(subscription, batch.id, batch.files)
        except WrongDefinitionError as error:
            into.kept.setdefault(str(error), []).append(batch.id)
            continue
        into.add(batch.closed_at, [*found.values()], counts=dry_run or ledger.forget(batch.id, before))


def _expired(subscription: str, before: datetime, ledger: Ledger) -> Iterator[ExpiredBatch]:
    """A page at a time, in the order of the history."""
    beyond = -1
    while page := ledger.expired(subscription, before, beyond, _PAGE):
        yield from page
        beyond = page[-1].number
