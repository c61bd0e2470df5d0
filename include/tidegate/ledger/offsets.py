"""Checkpoints: a group's positions, with a state beside them, in the ledger's database instead of Kafka."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import chain
from types import MappingProxyType, TracebackType
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Table, select, update

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.tables import checkpoints, states
from tidegate.ledger.upsert import enter_row, put_row
from tidegate.model.errors import CommitUnknownError, StaleError, UnavailableError, location, message
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, Fence, Outbox

log = logging.getLogger(__name__)


class SqlOffsets:
    """The port `OffsetStore` in the database of this URL, whose tables `SqlLedger` makes.

    Connects when it is first used. A database that can't be reached raises UnavailableError.
    """

    durable = True

    def __init__(
        self,
        url: str,
        subscription: str,
        group: str,
        outbox: Outbox,
        now: Callable[[Connection], datetime] = database_time,
    ) -> None:
        self._database = Database(url)
        self._subscription = subscription
        self._group = group
        self._outbox = outbox
        self._now = now

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.OffsetStore`."""
        with self._database.read() as connection:
            found = connection.execute(select(checkpoints).where(*self._mine(checkpoints))).all()
        known = {TopicPartition(r.topic, r.partition): Committed(r.offset, r.metadata, r.leader_epoch) for r in found}
        return {tp: known[tp] for tp in partitions if tp in known}

    def members(self) -> tuple[str, ...]:
        """See `tidegate.ports.OffsetStore`; nobody joins what is kept here."""
        return ()

    def state(self) -> str | None:
        """See `tidegate.ports.OffsetStore`."""
        with self._database.read() as connection:
            state: str | None = connection.scalar(select(states.c.state).where(*self._mine(states)))
            return state

    def fence(self) -> AbstractContextManager[Fence]:
        """See `tidegate.ports.OffsetStore`; taken when its context is entered. Nobody is ever a member here."""
        return _SqlFence(self)

    def raise_epoch(self) -> int:
        """Take the fence from whoever holds it; the number that says so from now on."""
        raised = update(states).where(*self._mine(states)).values(epoch=states.c.epoch + 1)
        with self._database.write() as connection:
            if not connection.execute(raised).rowcount:
                enter_row(connection, states, {**self._key, "epoch": 0})  # somebody else may have just made it
                connection.execute(raised)
            return int(connection.execute(select(states.c.epoch).where(*self._mine(states))).scalar_one())

    def send(self, outgoing: Iterable[Outgoing], epoch: int) -> None:
        """Produce records on behalf of a fence, if that is still the newest and there are any."""
        records = iter(outgoing)
        first = next(records, None)
        if first is None:
            return
        with self._database.read() as connection:
            self._compare(connection.scalar(select(states.c.epoch).where(*self._mine(states))), epoch)
        self._outbox.send(chain([first], records))

    def store(self, positions: Mapping[TopicPartition, Committed], state: str | None, epoch: int) -> None:
        """Write positions, and a state where there is a new one, in one transaction; StaleError if a fence is newer."""
        is_ending = False
        try:
            with self._database.write() as connection:
                query = select(states.c.epoch).where(*self._mine(states))
                self._compare(connection.scalar(query.with_for_update()), epoch)
                now = self._now(connection)
                for tp, position in sorted(positions.items()):
                    self._put(connection, tp, position, now)
                if state is not None:
                    kept = {"state": state, "since": now}
                    connection.execute(update(states).where(*self._mine(states)).values(kept))
                is_ending = True
        except UnavailableError as error:
            if not is_ending:
                raise
            raise CommitUnknownError(message(error, self._where, "the next run finds out")) from error

    def _put(self, connection: Connection, at: TopicPartition, position: Committed, now: datetime) -> None:
        """Write one position; whoever holds the fence's row is alone."""
        values = {
            "offset": position.offset,
            "metadata": position.metadata,
            "leader_epoch": position.leader_epoch,
            "committed_at": now,
        }
        put_row(connection, checkpoints, {**self._key, "topic": at.topic, "partition": at.partition}, values)

    def _compare(self, newest: int | None, epoch: int) -> None:
        if newest != epoch:
            raise StaleError(
                message(
                    f"a newer committer has taken the fence (epoch {newest} instead of {epoch}): nothing is lost, and "
                    "this one commits nothing",
                    self._where,
                    "nothing is to be done: the newer one goes on, and if it fails, the next run does",
                )
            )

    def _mine(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return (table.c.subscription == self._subscription, table.c.group_id == self._group)

    @property
    def _key(self) -> dict[str, Any]:
        return {"subscription": self._subscription, "group_id": self._group}

    @property
    def _where(self) -> str:
        return location(subscription=self._subscription, group=self._group)


class _SqlFence:
    """The port `Fence` on SqlOffsets: a number in the database, which each newer fence raises."""

    def __init__(self, offsets: SqlOffsets) -> None:
        self._offsets = offsets
        self._epoch = 0

    def __enter__(self) -> Self:
        self._epoch = self._offsets.raise_epoch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.Fence`."""
        return self._offsets.committed(partitions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """See `tidegate.ports.Fence`; positions and state, all or nothing, once `outgoing` is acknowledged."""
        self._offsets.send(outgoing, self._epoch)
        if offsets or state is not None:
            positions = {tp: Committed(offset, metadata, leader_epochs.get(tp)) for tp, offset in offsets.items()}
            self._offsets.store(positions, state, self._epoch)
