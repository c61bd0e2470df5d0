"""Prune: remove landings and ledger rows of batches that are in the lake, once they are older than their retention."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.model.errors import TidegateError, UnavailableError, WrongDefinitionError, first_few
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

    def remove_files(self, landing: Landing, subscription: str, batch: ExpiredBatch, *, dry_run: bool) -> bool:
        """Remove what has landed of a batch; False where its landing's connection is gone or refused."""
        remove = landing.stored if dry_run else landing.discard
        try:
            sizes = remove(subscription, batch.id, batch.files).values()
        except WrongDefinitionError as error:
            self.kept.setdefault(str(error), []).append(batch.id)
            return False
        self.files += len(sizes)
        self.bytes += sum(sizes)
        return True

    def count(self, batch: ExpiredBatch) -> None:
        """Count a batch whose rows are removed, too."""
        self.batches += 1
        self.oldest = min(self.oldest or batch.closed_at, batch.closed_at)
        self.newest = max(self.newest or batch.closed_at, batch.closed_at)

    @property
    def obstacle(self) -> TidegateError | None:
        """What is to be mended for the batches that stay; no definition is wrong, as none names a landing."""
        if not self.kept:
            return None
        return UnavailableError(first_few([f"{_these(batches)}: {why}" for why, batches in self.kept.items()]))


def _these(batches: list[str]) -> str:
    first, more = batches[0], len(batches) - 1
    return f"batch {first} and {more} more stay" if more else f"batch {first} stays"


def prune(
    subscription: str, retention_ms: int, into: Pruned, *, landing: Landing, ledger: Ledger, dry_run: bool
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
        removed = into.remove_files(landing, subscription, batch, dry_run=dry_run)
        if removed and (dry_run or ledger.forget(batch.id, before)):
            into.count(batch)


def _expired(subscription: str, before: datetime, ledger: Ledger) -> Iterator[ExpiredBatch]:
    """A page at a time, in the order of the history."""
    beyond = -1
    while page := ledger.expired(subscription, before, beyond, _PAGE):
        yield from page
        beyond = page[-1].number
