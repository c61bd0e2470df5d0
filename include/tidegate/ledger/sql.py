"""The ledger in a SQL database: SQLite or PostgreSQL, by SQLAlchemy URL."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from tidegate.ledger import expired as expired_rows
from tidegate.ledger import replays as replay_rows
from tidegate.ledger import resets as reset_rows
from tidegate.ledger import rows, rules, takeover, totals
from tidegate.ledger.database import Database, database_time, in_parts
from tidegate.ledger.migrate import migrate
from tidegate.ledger.tables import (
    batches,
    clearances,
    deliveries,
    files,
    groups,
    landings,
    ledger,
    missing,
    operations,
    positions,
    ranges,
    subscriptions,
    topics,
)
from tidegate.ledger.tables import losses as lost
from tidegate.ledger.upsert import enter_row, put_row
from tidegate.model.batch import PUBLISHED, Batch, Cause, Delivery, Landed, Outcome, PartialRange, Resolution, Tries
from tidegate.model.commit_policy import PositionStore
from tidegate.model.manifest import Counts, Published, Result
from tidegate.model.offsets import TopicPartition
from tidegate.ports import (
    Decision,
    DeliveryAge,
    ExpiredBatch,
    GroupHolder,
    GroupReset,
    HistoryEntry,
    LedgerSnapshot,
    Loss,
    Replay,
)


class SqlLedger:
    """The ledger in the database of this URL, whose tables are made or migrated when it is opened.

    Every write holds the row of its subscription, so that writes to one subscription come one after another.
    Raises WrongDefinitionError where the database can't be used by this version of Tidegate.
    """

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_time) -> None:
        self._database = Database(url)
        self._now = now
        migrate(self._database)

    def now(self) -> datetime:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return self._now(connection)

    def look(self, subscription: str) -> LedgerSnapshot:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            number = connection.scalar(select(subscriptions.c.version).where(subscriptions.c.name == subscription))
            found = rows.read(connection, _open_batch(subscription))
            noted = select(missing.c.topic).where(missing.c.subscription == subscription)
            known = select(topics.c.topic, topics.c.topic_id).where(topics.c.subscription == subscription)
            return LedgerSnapshot(
                version=_version(connection, number),
                open=found[0].batch if found else None,
                missing=frozenset(connection.scalars(noted)),
                topic_ids={row.topic: row.topic_id for row in connection.execute(known)},
                committed_at=_committed_at(connection, subscription),
                clusters=_clusters(connection, subscription),
                stores=_stores(connection, subscription),
            )

    def note_missing(self, subscription: str, topics: Collection[str]) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays, since no batch changes."""
        with self._database.write() as connection:
            for topic in sorted(topics):
                row = {"subscription": subscription, "topic": topic, "noted_at": self._now(connection)}
                enter_row(connection, missing, row)

    def note_topics(self, subscription: str, ids: Mapping[str, str], version: str, found: Collection[str] = ()) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays."""
        with self._database.write() as connection:
            if _version(connection, _hold(connection, subscription)) == version:
                known = set(connection.scalars(select(topics.c.topic).where(topics.c.subscription == subscription)))
                new = {topic: topic_id for topic, topic_id in ids.items() if topic not in known}
                _note_topics(connection, subscription, new, found)

    def claim_group(self, subscription: str, group: str, cluster_id: str | None) -> GroupHolder | None:
        """See `tidegate.ports.Ledger`; StaleError where somebody else claims it at the same time."""
        with self._database.write() as connection:
            rows_of_group = connection.execute(select(groups).where(groups.c.group_id == group)).all()
            held = {row.subscription: row.cluster_id for row in rows_of_group}
            holder = rules.group_holder(subscription, cluster_id, held)
            if holder is not None:
                is_open = (batches.c.subscription == holder, batches.c.group_id == group, batches.c.closed_at.is_(None))
                has_open_batch = connection.execute(select(batches.c.id).where(*is_open)).first() is not None
                return GroupHolder(holder, held[holder], has_open_batch)
            if subscription not in held:
                row = {"subscription": subscription, "group_id": group, "cluster_id": cluster_id, "version": 0}
                connection.execute(insert(groups).values(row))
            elif cluster_id is not None:
                mine = (groups.c.subscription == subscription, groups.c.group_id == group)
                connection.execute(update(groups).where(*mine).values(cluster_id=cluster_id))
            return None

    def group_holders(self, group: str) -> frozenset[str]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return frozenset(connection.scalars(select(groups.c.subscription).where(groups.c.group_id == group)))

    def take_over_group(self, subscription: str, group: str, holder: str) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            numbers = {name: _hold(connection, name) for name in sorted({subscription, holder})}
            of_holder = (groups.c.subscription == holder, groups.c.group_id == group)
            if connection.execute(select(groups).where(*of_holder)).first() is None:
                return
            if connection.execute(_open_batch(subscription)).first() is not None:
                raise rules.cannot_take_over(subscription, group)
            if numbers[subscription] is None:
                connection.execute(insert(subscriptions).values(name=subscription, version=0))
            shift = numbers[subscription] or 0
            takeover.move(connection, group, holder, subscription, shift)
            version = shift + (numbers[holder] or 0) + 1
            connection.execute(
                update(subscriptions).where(subscriptions.c.name == subscription).values(version=version)
            )
            _count_write(connection, holder)

    def accept_cluster(self, subscription: str, group: str, cluster_id: str, by: str) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            if _hold(connection, subscription) is None:
                connection.execute(insert(subscriptions).values(name=subscription, version=0))
            _count_write(connection, subscription)
            version = connection.scalar(select(subscriptions.c.version).where(subscriptions.c.name == subscription))
            accepted = {
                "cluster_id": cluster_id,
                "version": version,
                "accepted_by": by,
                "accepted_at": self._now(connection),
            }
            put_row(connection, groups, {"subscription": subscription, "group_id": group}, accepted)
            takeover.forget_topics(connection, subscription)
            takeover.forget_checkpoints(connection, subscription, group)

    def note_store(
        self, subscription: str, group: str, store: PositionStore, version: str, by: str | None = None
    ) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            number = _hold(connection, subscription)
            if _version(connection, number) != version or (number is None and not _enter(connection, subscription)):
                raise rules.overtaken_positions(subscription, group)
            moved = {} if by is None else {"moved_by": by, "moved_at": self._now(connection)}
            mine = (groups.c.subscription == subscription, groups.c.group_id == group)
            connection.execute(update(groups).where(*mine).values(store=store.name.lower(), **moved))
            _count_write(connection, subscription)

    def begin_reset(self, subscription: str, reset: GroupReset, version: str) -> str:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            number = _hold(connection, subscription)
            others = [row.id for row in connection.execute(_open_batch(subscription)) if row.id != reset.gives_up]
            if (
                others
                or _version(connection, number) != version
                or (number is None and not _enter(connection, subscription))
            ):
                raise rules.overtaken_positions(subscription, reset.group)
            _count_write(connection, subscription)
            reset_rows.enter(connection, subscription, reset)
            return _version(connection, (number or 0) + 1)

    def end_reset(self, subscription: str, reset: GroupReset, version: str, topic_ids: Mapping[str, str]) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            number = _hold(connection, subscription)
            reset_rows.close(connection, reset, self._now(connection))
            if _version(connection, number) == version:
                _count_write(connection, subscription)
                _note_topics(connection, subscription, topic_ids, ())
                moved = {change.at: change.after for change in reset.changes}
                self._note_positions(connection, subscription, reset.group, moved, (number or 0) + 1)

    def resets(self, subscription: str, limit: int) -> tuple[GroupReset, ...]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return reset_rows.read(connection, subscription, limit)

    def begin_replay(self, replay: Replay) -> Replay:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            replay_rows.enter(connection, replay)
        return next(each for each in self.replays() if each.name == replay.name)

    def end_replay(self, name: str) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            replay_rows.close(connection, name, self._now(connection))

    def replays(self, subscription: str | None = None) -> tuple[Replay, ...]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return replay_rows.read(connection, subscription)

    def open_batches(self) -> tuple[Batch, ...]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            found = rows.read(connection, select(batches.c.id).where(batches.c.closed_at.is_(None)))
        return tuple(sorted((outcome.batch for outcome in found), key=lambda batch: batch.subscription))

    def note_commit(
        self,
        subscription: str,
        group: str,
        offsets: Mapping[TopicPartition, int],
        version: str,
        *,
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        found: Collection[str] = (),
    ) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            number = _hold(connection, subscription)
            if _version(connection, number) != version:
                return
            if number is None and not _enter(connection, subscription):
                return
            _count_write(connection, subscription)
            _note_topics(connection, subscription, topic_ids, found)
            self._note_positions(connection, subscription, group, offsets, (number or 0) + 1)

    def note_losses(self, subscription: str, losses: Collection[Loss]) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays."""
        with self._database.write() as connection:
            for loss in sorted(losses, key=lambda loss: (loss.topic, loss.partition)):  # the same order for everyone
                key = {
                    "subscription": subscription,
                    "topic": loss.topic,
                    "partition": loss.partition,
                    "position": loss.position,
                }
                values = {"earliest": loss.earliest, "end_offset": loss.end, "noted_at": self._now(connection)}
                enter_row(connection, lost, key | values)

    def losses(self, subscription: str) -> tuple[Loss, ...]:
        """See `tidegate.ports.Ledger`."""
        query = select(lost).where(lost.c.subscription == subscription)
        ordered = query.order_by(lost.c.topic, lost.c.partition, lost.c.position)
        with self._database.read() as connection:
            found = connection.execute(ordered)
            return tuple(Loss(row.topic, row.partition, row.position, row.earliest, row.end_offset) for row in found)

    def open(self, batch: Batch, version: str, published: Published | None = None) -> Batch:
        """See `tidegate.ports.Ledger`; ValueError for a plan that can't be landed."""
        rules.check_plan(batch, published)
        with self._database.write() as connection:
            number = _hold(connection, batch.subscription)
            rules.check_room(batch, version, _version(connection, number), _outcomes_beside(connection, batch))
            if number is None:
                connection.execute(insert(subscriptions).values(name=batch.subscription, version=0))
            _count_write(connection, batch.subscription)
            left = _left_behind(connection, batch)
            self._note_positions(connection, batch.subscription, batch.group, left, (number or 0) + 1)
            rows.enter(connection, batch, (number or 0) + 1, self._now(connection))
            if published is not None:
                self._adopt(connection, batch, published)
            return _entry(connection, batch.id).batch

    def batch(self, batch_id: str) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return _entry(connection, batch_id).batch

    def landed(self, batch_id: str, member: int, landed: Landed) -> Batch:
        """See `tidegate.ports.Ledger`; ValueError for a report that isn't of this member's share."""
        with self._database.write() as connection:
            held = _held(connection, batch_id)
            batch = held.batch
            reports = rows.reports(connection, batch_id)
            if member in reports:
                return batch
            rules.check_report(batch, member, landed)
            if not landed.ranges:
                return batch
            whole = rules.land(batch, {**reports, member: landed})
            rows.save_report(connection, batch, member, landed, self._now(connection))
            if whole.state is not batch.state:
                now = self._now(connection)
                rows.save_landed(connection, batch_id, now)
                totals.count_landing(connection, batch.subscription, held.opened_at, now)
            return self._changed(connection, whole)

    def reported(self, batch_id: str, member: int) -> bool:
        """See `tidegate.ports.Ledger`."""
        query = select(landings.c.member).where(landings.c.batch_id == batch_id, landings.c.member == member)
        with self._database.read() as connection:
            return connection.execute(query).first() is not None

    def start_delivery(self, batch_id: str) -> Delivery:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            held = _held(connection, batch_id)
            started = rules.start(held.batch)
            delivery = Delivery(held.deliveries + 1, uuid.uuid4().hex)
            rows.save_delivery(connection, batch_id, delivery, self._now(connection))
            totals.count_delivery(connection, started.subscription)
            self._changed(connection, started)
            return delivery

    def processed(
        self,
        batch_id: str,
        delivery: Delivery,
        result: Result,
        counts: Counts,
        reached: Collection[PartialRange] = (),
    ) -> Batch:
        """See `tidegate.ports.Ledger`; StaleError for a delivery that this ledger didn't start."""
        with self._database.write() as connection:
            batch = _held(connection, batch_id).batch
            known = rows.delivery(connection, batch, delivery.token)
            won = rules.win(batch, known, result, counts, reached)
            now = self._now(connection)
            totals.count_end(connection, batch.subscription, known, now)
            rows.save_success(connection, known, now, is_late=won == batch)
            if won == batch:
                return batch
            if won.ranges != batch.ranges:
                rows.save_reached(connection, won)
            return self._changed(connection, won)

    def failed(self, batch_id: str, delivery: Delivery, reason: str, cause: Cause = Cause.SYSTEM) -> Batch:
        """See `tidegate.ports.Ledger`; StaleError for a delivery that this ledger didn't start."""
        with self._database.write() as connection:
            batch = _held(connection, batch_id).batch
            known = rows.delivery(connection, batch, delivery.token)
            now = self._now(connection)
            totals.count_end(connection, batch.subscription, known, now, cause)
            rows.save_failure(connection, known, now, reason, cause)
            lost = rules.fail(batch, known, reason)
            return batch if lost == batch else self._changed(connection, lost)

    def adopt(self, batch_id: str, published: Published) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            return self._adopt(connection, _held(connection, batch_id).batch, published)

    def resolve(self, batch_id: str, resolution: Resolution, reason: str | None = None) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            batch = _held(connection, batch_id).batch
            resolved = rules.resolve(batch, resolution, reason)
            return batch if resolved == batch else self._changed(connection, resolved)

    def close(self, batch_id: str, outcome: Outcome, reason: str | None = None) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            batch = _held(connection, batch_id).batch
            closed = rules.close(batch, outcome, reason)
            if closed == batch:
                return batch
            self._note_without_commit(connection, batch, rules.passed(batch, outcome))
            return self._changed(connection, closed)

    def remark(self, batch_id: str, text: str) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            batch = _held(connection, batch_id).batch
            remarked = rules.remark(batch, text)
            return batch if remarked == batch else self._changed(connection, remarked)

    def deliveries(self, batch_id: str) -> int:
        """See `tidegate.ports.Ledger`; 0 for a batch that the ledger doesn't know."""
        with self._database.read() as connection:
            return connection.scalar(_deliveries(batch_id)) or 0

    def tries(self, batch_id: str) -> Tries:
        """See `tidegate.ports.Ledger`; none for a batch that the ledger doesn't know."""
        redelivered = (clearances.c.batch_id == batch_id, clearances.c.answer == Resolution.REDELIVER)
        cleared = select(func.max(clearances.c.deliveries)).where(*redelivered)
        with self._database.read() as connection:
            before: int = connection.scalar(cleared) or 0
            since = (deliveries.c.batch_id == batch_id, deliveries.c.number > before)
            found = connection.scalars(select(deliveries.c.cause).where(*since).order_by(deliveries.c.number)).all()
        return Tries(tuple(None if cause is None else Cause(cause) for cause in found))

    def received(self, batch_id: str) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            batch = _held(connection, batch_id).batch
            return batch if batch.offsets_committed else self._changed(connection, rules.receive(batch))

    def clear(self, batch_id: str, clearance: Decision) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            held = _held(connection, batch_id)
            cleared = rules.clear(held.batch, clearance.answer)
            clearance = rules.storable_clearance(clearance)
            newest = select(func.max(clearances.c.number)).where(clearances.c.batch_id == batch_id)
            row = {
                "batch_id": batch_id,
                "number": (connection.scalar(newest) or 0) + 1,
                "deliveries": held.deliveries,
                "answer": clearance.answer,
                "cleared_by": clearance.by,
                "cleared_at": clearance.at,
                "note": clearance.note,
            }
            connection.execute(insert(clearances).values(row))
            return self._changed(connection, cleared)

    def clearances(self, subscription: str, limit: int) -> tuple[tuple[str, Decision], ...]:
        """See `tidegate.ports.Ledger`."""
        # by the decisions, which people make one by one, and not by the batches
        of = select(batches.c.subscription).where(batches.c.id == clearances.c.batch_id).scalar_subquery()
        query = select(clearances).where(of == subscription)
        newest = query.order_by(clearances.c.cleared_at.desc(), clearances.c.number.desc()).limit(limit)
        with self._database.read() as connection:
            found = connection.execute(newest)
            return tuple((row.batch_id, rows.decision(row)) for row in found)

    def begin_operation(self, run: str, by: str) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            row = {"run": run, "operated_by": by, "begun_at": self._now(connection)}
            if not enter_row(connection, operations, row):
                raise rules.used_operation(run)

    def note_alive(self, batch_id: str, token: str) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays, since no batch changes."""
        of_delivery = (deliveries.c.batch_id == batch_id, deliveries.c.token == token)
        with self._database.write() as connection:
            connection.execute(update(deliveries).where(*of_delivery).values(alive_at=self._now(connection)))

    def delivery_age(self, batch_id: str, token: str) -> DeliveryAge:
        """See `tidegate.ports.Ledger`; StaleError for a delivery that this ledger didn't start."""
        of_delivery = (deliveries.c.batch_id == batch_id, deliveries.c.token == token)
        with self._database.read() as connection:
            found = connection.execute(select(deliveries).where(*of_delivery)).one_or_none()
            now = self._now(connection)
        if found is None:
            raise rules.unknown_delivery(batch_id, token)
        return DeliveryAge(now - found.started_at, now - (found.alive_at or found.started_at))

    def history(self, subscription: str, limit: int | None) -> tuple[HistoryEntry, ...]:
        """See `tidegate.ports.Ledger`."""
        newest = _newest_first(batches.c.subscription == subscription).limit(limit)
        with self._database.read() as connection:
            return rows.read(connection, newest)

    def outcomes(self, batch_ids: Collection[str]) -> dict[str, Outcome | None]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            found = [_outcomes(connection, batches.c.id.in_(some)) for some in in_parts([*batch_ids])]
        return {batch_id: outcome for each in found for batch_id, outcome in each.items()}

    def newest_outputs(self, subscriptions: Collection[str]) -> dict[str, str]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            found = [_newest_outputs(connection, some) for some in in_parts([*subscriptions])]
        return {name: output for each in found for name, output in each.items()}

    def written_outputs(self) -> frozenset[tuple[str, str]]:
        """See `tidegate.ports.Ledger`."""
        is_there = or_(batches.c.outcome.in_(PUBLISHED), batches.c.closed_at.is_(None))
        with self._database.read() as connection:
            found = connection.execute(select(batches.c.subscription, batches.c.output).where(is_there).distinct())
            return frozenset((row.subscription, row.output) for row in found)

    def closed_files(self, subscription: str, newest: int) -> dict[str, frozenset[str]]:
        """See `tidegate.ports.Ledger`."""
        closed = _newest_first(batches.c.subscription == subscription, batches.c.closed_at.is_not(None)).limit(newest)
        with self._database.read() as connection:
            found: dict[str, set[str]] = {batch_id: set() for batch_id in connection.scalars(closed).all()}
            has_landed = select(batches.c.id).where(batches.c.id.in_(list(found)), batches.c.landed_at.is_not(None))
            query = select(files.c.batch_id, files.c.uri).where(files.c.batch_id.in_(has_landed))
            for row in connection.execute(query):
                found[row.batch_id].add(row.uri)
        return {batch_id: frozenset(uris) for batch_id, uris in found.items()}

    def last_ends(self, subscription: str, group: str) -> dict[TopicPartition, int]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return _last_ends(connection, subscription, group)

    def expired(self, subscription: str, before: datetime, beyond: int, limit: int) -> tuple[ExpiredBatch, ...]:
        """See `tidegate.ports.Ledger`."""
        with self._database.read() as connection:
            return expired_rows.read(connection, subscription, before, beyond, limit)

    def forget(self, batch_id: str, before: datetime) -> bool:
        """See `tidegate.ports.Ledger`."""
        with self._database.write() as connection:
            _hold(connection, select(batches.c.subscription).where(batches.c.id == batch_id).scalar_subquery())
            return expired_rows.remove(connection, batch_id, before)

    def _adopt(self, connection: Connection, batch: Batch, published: Published) -> Batch:
        adopted = rules.adopt(batch, published)
        self._note_without_commit(connection, batch, rules.left_out(batch, published))
        rows.save_adopted(connection, adopted, self._now(connection))
        return self._changed(connection, adopted)

    def _note_without_commit(self, connection: Connection, batch: Batch, offsets: Mapping[TopicPartition, int]) -> None:
        """Note where partitions stand for which a batch commits nothing."""
        if offsets:
            opened = connection.scalars(select(batches.c.number).where(batches.c.id == batch.id)).one()
            self._note_positions(connection, batch.subscription, batch.group, offsets, opened)

    def _note_positions(
        self, connection: Connection, subscription: str, group: str, offsets: Mapping[TopicPartition, int], version: int
    ) -> None:
        now = self._now(connection)
        for tp, offset in sorted(offsets.items()):
            key = {"subscription": subscription, "group_id": group, "topic": tp.topic, "partition": tp.partition}
            put_row(connection, positions, key, {"offset": offset, "version": version, "committed_at": now})

    def _changed(self, connection: Connection, batch: Batch) -> Batch:
        """Write how far the batch has come, and count that; the batch as it stands then."""
        now = self._now(connection)
        if not batch.is_open:
            totals.count_close(connection, batch, now)
        rows.save(connection, batch, now)
        _count_write(connection, batch.subscription)
        return _entry(connection, batch.id).batch


def _deliveries(batch_id: str) -> Select[int]:
    return select(func.count()).select_from(deliveries).where(deliveries.c.batch_id == batch_id)


def _last_ends(connection: Connection, subscription: str, group: str) -> dict[TopicPartition, int]:
    newest = _newest_committed(subscription, group)
    found = rows.read(connection, newest)
    opened = connection.scalar(select(batches.c.number).where(batches.c.id.in_(newest))) or 0
    mine = (positions.c.subscription == subscription, positions.c.group_id == group)
    noted = select(positions).where(*mine, positions.c.version >= _held_since(subscription, group))
    return rules.last_ends(
        found[0].batch.ranges if found else (),
        opened,
        {TopicPartition(row.topic, row.partition): (row.offset, row.version) for row in connection.execute(noted)},
    )


def _left_behind(connection: Connection, batch: Batch) -> dict[TopicPartition, int]:
    """Where the partitions stand that the newest committed batch has and this one hasn't, since they aren't there."""
    of_newest = ranges.c.batch_id.in_(_newest_committed(batch.subscription, batch.group))
    held = {
        TopicPartition(row.topic, row.partition)
        for row in connection.execute(select(ranges.c.topic, ranges.c.partition).where(of_newest))
    }
    gone = held - {r.at for r in batch.ranges}
    ends = _last_ends(connection, batch.subscription, batch.group) if gone else {}
    return {at: ends[at] for at in gone}


def _newest_committed(subscription: str, group: str) -> Select[Any]:
    """The id of the newest batch whose offsets were committed, of this group since it was taken over."""
    of_group = (batches.c.subscription == subscription, batches.c.group_id == group)
    since = batches.c.number >= _held_since(subscription, group)
    return _newest_first(*of_group, batches.c.offsets_committed, since).limit(1)


def _held_since(subscription: str, group: str) -> ColumnElement[int]:
    """The subscription's version at which it took the group over."""
    of_group = (groups.c.subscription == subscription, groups.c.group_id == group)
    return func.coalesce(select(groups.c.version).where(*of_group).scalar_subquery(), 0)


def _newest_first(*conditions: ColumnElement[bool]) -> Select[Any]:
    return select(batches.c.id).where(*conditions).order_by(batches.c.number.desc())


def _open_batch(subscription: str) -> Select[tuple[str]]:
    return select(batches.c.id).where(batches.c.subscription == subscription, batches.c.closed_at.is_(None))


def _entry(connection: Connection, batch_id: str) -> HistoryEntry:
    found = rows.read(connection, select(batches.c.id).where(batches.c.id == batch_id))
    if not found:
        raise rules.unknown_batch(batch_id)
    return found[0]


def _note_topics(connection: Connection, subscription: str, ids: Mapping[str, str], found: Collection[str]) -> None:
    for topic, topic_id in sorted(ids.items()):
        put_row(connection, topics, {"subscription": subscription, "topic": topic}, {"topic_id": topic_id})
    for name in sorted(found):
        connection.execute(delete(missing).where(missing.c.subscription == subscription, missing.c.topic == name))


def _hold(connection: Connection, subscription: str | ScalarSelect[str]) -> int | None:
    """Keep others from writing to the subscription until the transaction ends; its version, None before the first."""
    query = select(subscriptions.c.version).where(subscriptions.c.name == subscription)
    held: int | None = connection.scalar(query.with_for_update())
    return held


def _enter(connection: Connection, subscription: str) -> bool:
    """Write the subscription's first row; whether nobody else just did."""
    return enter_row(connection, subscriptions, {"name": subscription, "version": 0})


def _held(connection: Connection, batch_id: str) -> HistoryEntry:
    """The batch as it stands, which nobody else can change until the transaction ends."""
    _hold(connection, select(batches.c.subscription).where(batches.c.id == batch_id).scalar_subquery())
    return _entry(connection, batch_id)


def _outcomes_beside(connection: Connection, batch: Batch) -> dict[str, Outcome | None]:
    """The subscription's open batch and the one of this id, as far as there are any."""
    is_beside = or_(batches.c.id == batch.id, batches.c.id.in_(_open_batch(batch.subscription)))
    return _outcomes(connection, is_beside)


def _outcomes(connection: Connection, condition: ColumnElement[bool]) -> dict[str, Outcome | None]:
    found = connection.execute(select(batches.c.id, batches.c.outcome).where(condition))
    return {row.id: None if row.outcome is None else Outcome(row.outcome) for row in found}


def _newest_outputs(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    of_subscription = batches.c.subscription == subscriptions.c.name
    newest = select(batches.c.output).where(of_subscription).order_by(batches.c.number.desc()).limit(1)
    output = newest.scalar_subquery().label("output")
    found = connection.execute(select(subscriptions.c.name, output).where(subscriptions.c.name.in_(names)))
    return {row.name: row.output for row in found if row.output is not None}


def _committed_at(connection: Connection, subscription: str) -> datetime | None:
    """When positions were last committed: with a batch, or without."""
    is_committed = (batches.c.subscription == subscription, batches.c.offsets_committed)
    closed = select(batches.c.closed_at).where(*is_committed, batches.c.closed_at.is_not(None))
    with_batch: datetime | None = connection.scalar(closed.order_by(batches.c.number.desc()).limit(1))
    noted = select(func.max(positions.c.committed_at)).where(positions.c.subscription == subscription)
    without: datetime | None = connection.scalar(noted)
    return max((at for at in (with_batch, without) if at is not None), default=None)


def _clusters(connection: Connection, subscription: str) -> dict[str, str | None]:
    """The cluster of each group of the subscription."""
    found = select(groups.c.group_id, groups.c.cluster_id).where(groups.c.subscription == subscription)
    return {row.group_id: row.cluster_id for row in connection.execute(found)}


def _stores(connection: Connection, subscription: str) -> dict[str, PositionStore]:
    """The store of the positions of each group of the subscription that has any."""
    found = select(groups.c.group_id, groups.c.store).where(
        groups.c.subscription == subscription, groups.c.store.is_not(None)
    )
    return {row.group_id: PositionStore[row.store.upper()] for row in connection.execute(found)}


def _count_write(connection: Connection, subscription: str) -> None:
    this = update(subscriptions).where(subscriptions.c.name == subscription)
    connection.execute(this.values(version=subscriptions.c.version + 1))


def _version(connection: Connection, number: int | None) -> str:
    return f"{connection.scalar(select(ledger.c.identity))}:{number or 0}"
