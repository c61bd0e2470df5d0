"""Prune: what old batches have left behind, of one subscription and its replays, or of all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.config.settings import Settings
from tidegate.landing.parquet import ParquetLanding
from tidegate.ledger.holders import has_tables
from tidegate.ledger.removed import RemovedSubscription
from tidegate.ledger.sql import SqlLedger
from tidegate.model.counting import counted
from tidegate.model.errors import TidegateError, UnavailableError, WrongDefinitionError
from tidegate.model.subscription import Subscription
from tidegate.ports import Landing, Ledger
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.unmade_ledger import AFTER_RUNS, no_run
from tidegate.steps.prune import Pruned, prune


@dataclass(frozen=True, slots=True)
class PrunedSubscription:
    """What was removed of a subscription, or would be; the error that ended it, if one did.

    `retention_ms` is None where there was no definition to say it. `no_run` says that the ledger knows of no run, so
    that nothing is known to be old; None where it knows of one.
    """

    name: str
    dry_run: bool
    retention_ms: int | None
    pruned: Pruned
    error: TidegateError | None = None
    no_run: str | None = None

    @property
    def is_anything(self) -> bool:
        """Whether something was removed, or would be."""
        return bool(self.pruned.files or self.pruned.batches)

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        done = self.pruned
        return {
            "subscription": self.name,
            "dry_run": self.dry_run,
            "retention_ms": self.retention_ms,
            "batches": done.batches,
            "files": done.files,
            "bytes": done.bytes,
            "oldest": done.oldest.isoformat() if done.oldest else None,
            "newest": done.newest.isoformat() if done.newest else None,
            "no_run": self.no_run,
            "error": None if self.error is None else str(self.error),
        }

    def __str__(self) -> str:
        """The line that people read."""
        if self.error is not None and not self.is_anything:
            return f"{self.name}: {self.error}"
        return f"{self.name}: {self._said}" + (f"; then: {self.error}" if self.error else "")

    @property
    def _said(self) -> str:
        done = self.pruned
        if self.no_run:
            return f"{self.no_run}; {AFTER_RUNS}"
        if self.retention_ms == 0:
            return "everything is kept (retention.ms: 0)"
        if self.retention_ms is not None and not (done.batches or done.files):
            return "nothing is older than its retention.ms"
        if self.retention_ms is None and not self.is_anything:
            return (
                "the ledger has no batches under this name: a subscription that took over its group, as after it was "
                "renamed, has them, too, and its prune removes them"
            )
        did = "would remove" if self.dry_run else "removed"
        ended = f", which ended {done.oldest:%Y-%m-%d %H:%M} to {done.newest:%Y-%m-%d %H:%M} UTC" if done.oldest else ""
        files = f"{counted(done.files, 'file')} of {counted(done.bytes, 'byte')}"
        return f"{did} {counted(done.batches, 'batch', 'batches')}{ended}, with {files}"


def prune_all(names: Sequence[str], settings: Settings, *, dry_run: bool) -> Iterator[PrunedSubscription]:
    """Prune one after the other: one that can't be done keeps nobody else's."""
    definitions = AllDefinitions(settings)
    for name in names:
        pruned = Pruned()
        retention_ms = None
        error, missing = None, None
        try:
            subscription = definitions.load(name)
            retention_ms = subscription.retention_ms
            missing = no_run(settings.ledger)
            if missing is None:
                landing, ledger = ParquetLanding(settings.landing), SqlLedger(settings.ledger)
                _prune(subscription, pruned, landing, ledger, dry_run=dry_run)
                error = pruned.obstacle
        except TidegateError as raised:
            error = raised
        yield PrunedSubscription(name, dry_run, retention_ms, pruned, error, missing)


def prune_removed(name: str, settings: Settings, *, dry_run: bool) -> PrunedSubscription:
    """Remove the landing and all rows of a subscription that has no definition any more, whatever their age.

    Files go first, as in `prune`, so that one that was killed can be repeated; rows go once all files have. Raises
    WrongDefinitionError for one that has a definition or that the ledger doesn't know, StaleError while one of its
    batches is open.
    """
    if not settings.subscriptions.is_dir():  # it may be on a disk that isn't mounted
        raise WrongDefinitionError(f"nothing was removed: {settings.no_subscriptions}")
    if AllDefinitions(settings).group_of(name) is not None:
        raise WrongDefinitionError(
            f"subscription {name} has a definition, and nothing was removed: leave out --removed, or remove the "
            "definition first"
        )
    if not has_tables(settings.ledger):
        raise WrongDefinitionError(f"nothing was removed: {no_run(settings.ledger)}; {AFTER_RUNS}")
    landing, removed, pruned = ParquetLanding(settings.landing), RemovedSubscription(settings.ledger, name), Pruned()
    seen = removed.batches()
    ended = [
        batch
        for each, batches in seen.items()
        for batch in batches
        if pruned.remove_files(landing, each, batch, dry_run=dry_run)
    ]
    error = pruned.obstacle
    if error is not None:
        return PrunedSubscription(name, dry_run, None, pruned, UnavailableError(f"{error}; until then all rows stay"))
    if not dry_run:
        removed.forget(seen)
    for batch in ended:
        pruned.count(batch)
    return PrunedSubscription(name, dry_run, None, pruned)


def _prune(subscription: Subscription, into: Pruned, landing: Landing, ledger: Ledger, *, dry_run: bool) -> None:
    names = [subscription.name, *(replay.name for replay in ledger.replays(subscription.name))]
    for name in names:
        prune(name, subscription.retention_ms, into, landing=landing, ledger=ledger, dry_run=dry_run)
