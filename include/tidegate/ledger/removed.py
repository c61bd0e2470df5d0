"""What the ledger has of a subscription that has no definition any more, and how it goes."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from tidegate.ledger import expired
from tidegate.ledger.database import Database
from tidegate.ledger.migrate import migrate
from tidegate.ledger.tables import (
    batches,
    checkpoints,
    contacts,
    groups,
    lag_samples,
    losses,
    missing,
    observations,
    position_changes,
    positions,
    replay_ranges,
    replays,
    resets,
    runs,
    states,
    subscriptions,
    topics,
    totals,
)
from tidegate.model.errors import StaleError, WrongDefinitionError, message
from tidegate.ports import ExpiredBatch

_OF_A_SUBSCRIPTION = (
    missing,
    topics,
    groups,
    positions,
    checkpoints,
    states,
    contacts,
    runs,
    losses,
    observations,
    lag_samples,
    totals,
)


class RemovedSubscription:
    """A subscription's rows, and those of its replays, in the ledger at this URL.

    Raises UnavailableError, UnusableLedgerError.
    """

    def __init__(self, url: str, name: str) -> None:
        self._database, self._name = Database(url), name
        migrate(self._database)

    def batches(self) -> dict[str, tuple[ExpiredBatch, ...]]:
        """All batches of the subscription and of each of its replays, by name.

        Raises WrongDefinitionError if the ledger doesn't know it, StaleError while one of its batches is open.
        """
        with self._database.read() as connection:
            names = self._names(connection)
            known = select(subscriptions.c.name).where(subscriptions.c.name.in_(names))
            if not connection.execute(known).first():
                raise WrongDefinitionError(f"the ledger knows no subscription {self._name}: there is nothing to remove")
            self._refuse_open(connection, names)
            return _all(connection, names)

    def forget(self, seen: dict[str, tuple[ExpiredBatch, ...]]) -> None:
        """Remove all rows, if its batches are those that were seen; raises StaleError if they aren't.

        What was redriven and answered stays, and so does what was done with its definition by REST. Its alerts stay
        until their end was told.
        """
        with self._database.write() as connection:
            names = self._names(connection)
            self._refuse_open(connection, names)
            if _all(connection, names) != seen:
                raise StaleError(f"subscription {self._name} has other batches than before: run the command again")
            self._remove(connection, names)

    def _remove(self, connection: Connection, names: Sequence[str]) -> None:
        expired.remove_all(connection, batches.c.subscription.in_(names))
        reset = select(resets.c.id).where(resets.c.subscription.in_(names)).scalar_subquery()
        connection.execute(delete(position_changes).where(position_changes.c.reset_id.in_(reset)))
        connection.execute(delete(resets).where(resets.c.subscription.in_(names)))
        connection.execute(delete(replay_ranges).where(replay_ranges.c.name.in_(names)))
        connection.execute(delete(replays).where(replays.c.name.in_(names)))
        for table in _OF_A_SUBSCRIPTION:
            connection.execute(delete(table).where(table.c.subscription.in_(names)))
        connection.execute(delete(subscriptions).where(subscriptions.c.name.in_(names)))

    def _names(self, connection: Connection) -> list[str]:
        of_replays = select(replays.c.name).where(replays.c.subscription == self._name).order_by(replays.c.name)
        return [self._name, *connection.scalars(of_replays)]

    def _refuse_open(self, connection: Connection, names: Sequence[str]) -> None:
        is_open = (batches.c.subscription.in_(names), batches.c.closed_at.is_(None))
        found = connection.execute(
            select(batches.c.id, batches.c.group_id, batches.c.subscription).where(*is_open)
        ).first()
        if found is not None:
            raise StaleError(
                message(
                    f"batch {found.id} of subscription {found.subscription} is open, and nothing was removed",
                    f"group {found.group_id}",
                    f"put the definition back and {self._how_to_end(found.subscription)}; then remove the definition "
                    "again",
                )
            )

    def _how_to_end(self, whose: str) -> str:
        """What ends an open batch, a replay's too."""
        if whose != self._name:
            return "end that replay by the same `tidegate replay`"
        return (
            "run it until no batch is open, or, where nobody wants its records, "
            f"`tidegate clear {self._name} --answer skip` and run once more; under commit-strategy: manual `tidegate "
            f"commit {self._name}` ends it"
        )


def _all(connection: Connection, names: Sequence[str]) -> dict[str, tuple[ExpiredBatch, ...]]:
    return {name: expired.read_all(connection, batches.c.subscription == name) for name in names}
