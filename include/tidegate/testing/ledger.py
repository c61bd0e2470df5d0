"""A ledger in memory."""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from tidegate.ledger import rules
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


@dataclass(frozen=True, slots=True)
class _Entry:
    """A batch, the version that opened it and what belongs to it; `earlier` are deliveries of earlier openings.

    `causes` has what failed deliveries, by token; None for those that were processed.
    """

    batch: Batch
    number: int
    opened_at: datetime
    since: datetime
    closed_at: datetime | None = None
    reports: Mapping[int, Landed] = field(default_factory=dict)
    started: tuple[tuple[Delivery, datetime], ...] = ()
    earlier: tuple[tuple[Delivery, datetime], ...] = ()
    cleared: tuple[tuple[int, Decision], ...] = ()
    causes: Mapping[str, Cause | None] = field(default_factory=dict)

    def ended(self, delivery: Delivery, cause: Cause | None) -> "_Entry":
        """With the end of a delivery; one that failed may still be processed, and not the other way round."""
        if self.causes.get(delivery.token, cause) is None:
            return replace(self, causes={**self.causes, delivery.token: None})
        return replace(self, causes={**self.causes, delivery.token: cause})


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryLedger:
    """The port `Ledger` for one process, its threads included; as lasting as the object."""

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now
        self._identity = uuid.uuid4().hex
        self._writes: dict[str, int] = defaultdict(int)
        self._entries: dict[str, _Entry] = {}  # in the order in which they were opened
        self._missing: dict[str, set[str]] = defaultdict(set)
        self._topic_ids: dict[str, dict[str, str]] = defaultdict(dict)
        self._positions: dict[tuple[str, str], dict[TopicPartition, tuple[int, int, datetime]]] = defaultdict(dict)
        self._groups: dict[tuple[str, str], tuple[str | None, int]] = {}  # the cluster, and since which version
        self._stores: dict[tuple[str, str], PositionStore] = {}
        self._alive: dict[tuple[str, str], datetime] = {}
        self._losses: dict[str, dict[tuple[str, int, int], Loss]] = defaultdict(dict)
        self._operations: dict[str, str] = {}
        self._resets: dict[str, list[GroupReset]] = defaultdict(list)
        self._replays: dict[str, Replay] = {}
        self._lock = threading.RLock()

    def now(self) -> datetime:
        """See `tidegate.ports.Ledger`."""
        return self._now()

    def look(self, subscription: str) -> LedgerSnapshot:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            found = [e.batch for e in self._of(subscription) if e.batch.is_open]
            return LedgerSnapshot(
                version=self._version(subscription),
                open=found[0] if found else None,
                missing=frozenset(self._missing[subscription]),
                topic_ids=dict(self._topic_ids[subscription]),
                committed_at=self._last_commit(subscription),
                clusters={
                    group: cluster for (name, group), (cluster, _) in self._groups.items() if name == subscription
                },
                stores={group: store for (name, group), store in self._stores.items() if name == subscription},
            )

    def note_missing(self, subscription: str, topics: Collection[str]) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays, since no batch changes."""
        with self._lock:
            self._missing[subscription].update(topics)

    def note_topics(self, subscription: str, ids: Mapping[str, str], version: str, found: Collection[str] = ()) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays."""
        with self._lock:
            if self._version(subscription) == version:
                self._topic_ids[subscription] = {**ids, **self._topic_ids[subscription]}
                self._missing[subscription].difference_update(found)

    def claim_group(self, subscription: str, group: str, cluster_id: str | None) -> GroupHolder | None:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            held = {name: cluster for (name, of), (cluster, _) in self._groups.items() if of == group}
            holder = rules.group_holder(subscription, cluster_id, held)
            if holder is not None:
                found = [e.batch for e in self._of(holder) if e.batch.group == group]
                return GroupHolder(holder, held[holder], any(batch.is_open for batch in found))
            _, since = self._groups.get((subscription, group), (None, 0))
            known = held.get(subscription) if cluster_id is None else cluster_id
            self._groups[subscription, group] = (known, since)
            return None

    def group_holders(self, group: str) -> frozenset[str]:
        """See `tidegate.ports.Ledger`."""
        return frozenset(name for name, of in self._groups if of == group)

    def take_over_group(self, subscription: str, group: str, holder: str) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            if (holder, group) not in self._groups:
                return
            if any(e.batch.is_open for e in self._of(subscription)):
                raise rules.cannot_take_over(subscription, group)
            shift = self._writes[subscription]
            of_group = [e for e in self._entries.values() if (e.batch.subscription, e.batch.group) == (holder, group)]
            for entry in of_group:  # they come after what the subscription had before
                batch = replace(entry.batch, subscription=subscription)
                del self._entries[batch.id]
                self._entries[batch.id] = replace(entry, batch=batch, number=entry.number + shift)
            taken = self._positions.pop((holder, group), {})
            self._positions[subscription, group] = {tp: (o, v + shift, at) for tp, (o, v, at) in taken.items()}
            cluster, since = self._groups.pop((holder, group))
            self._groups[subscription, group] = (cluster, since + shift)
            self._stores.pop((subscription, group), None)
            if store := self._stores.pop((holder, group), None):
                self._stores[subscription, group] = store
            self._topic_ids[subscription].update(self._topic_ids[holder])
            self._missing[subscription].update(self._missing[holder])
            self._losses[subscription].update(self._losses[holder])
            reset = self._resets.pop(holder, [])
            self._resets[subscription] += [each for each in reset if each.group == group]
            self._resets[holder] = [each for each in reset if each.group != group]
            for name, replay in self._replays.items():
                if replay.subscription == holder:
                    self._replays[name] = replace(replay, subscription=subscription)
            self._writes[subscription] = shift + self._writes[holder] + 1
            self._writes[holder] += 1

    def accept_cluster(self, subscription: str, group: str, cluster_id: str, by: str) -> None:  # noqa: ARG002 (the port's)
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            self._writes[subscription] += 1
            self._groups[subscription, group] = (cluster_id, self._writes[subscription])
            self._topic_ids[subscription].clear()
            self._missing[subscription].clear()

    def note_store(
        self, subscription: str, group: str, store: PositionStore, version: str, by: str | None = None
    ) -> None:
        """See `tidegate.ports.Ledger`; who moved them isn't kept."""
        del by
        with self._lock:
            if self._version(subscription) != version:
                raise rules.overtaken_positions(subscription, group)
            self._stores[subscription, group] = store
            self._writes[subscription] += 1

    def begin_reset(self, subscription: str, reset: GroupReset, version: str) -> str:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            others = [e for e in self._of(subscription) if e.batch.is_open and e.batch.id != reset.gives_up]
            if others or self._version(subscription) != version:
                raise rules.overtaken_positions(subscription, reset.group)
            self._writes[subscription] += 1
            self._resets[subscription].append(reset)
            return self._version(subscription)

    def end_reset(self, subscription: str, reset: GroupReset, version: str, topic_ids: Mapping[str, str]) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            known = self._resets[subscription]
            known[:] = [replace(each, is_done=True) if each.id == reset.id else each for each in known]
            moved = {change.at: change.after for change in reset.changes}
            self.note_commit(subscription, reset.group, moved, version, topic_ids=topic_ids)

    def resets(self, subscription: str, limit: int) -> tuple[GroupReset, ...]:
        """See `tidegate.ports.Ledger`."""
        return tuple(reversed(self._resets[subscription]))[:limit]

    def begin_replay(self, replay: Replay) -> Replay:
        """See `tidegate.ports.Ledger`."""
        return self._replays.setdefault(replay.name, replay)

    def end_replay(self, name: str) -> None:
        """See `tidegate.ports.Ledger`."""
        self._replays[name] = replace(self._replays[name], is_done=True)

    def replays(self, subscription: str | None = None) -> tuple[Replay, ...]:
        """See `tidegate.ports.Ledger`."""
        found = [each for each in self._replays.values() if subscription in (None, each.subscription)]
        return tuple(sorted(found, key=lambda each: (-each.at.timestamp(), each.name)))

    def open_batches(self) -> tuple[Batch, ...]:
        """See `tidegate.ports.Ledger`."""
        found = (e.batch for e in self._entries.values() if e.batch.is_open)
        return tuple(sorted(found, key=lambda batch: batch.subscription))

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
        with self._lock:
            if self._version(subscription) == version:
                self._topic_ids[subscription].update(topic_ids)
                self._missing[subscription].difference_update(found)
                self._writes[subscription] += 1
                self._note_positions(subscription, group, offsets, self._writes[subscription])

    def note_losses(self, subscription: str, losses: Collection[Loss]) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays."""
        with self._lock:
            for loss in losses:
                self._losses[subscription].setdefault((loss.topic, loss.partition, loss.position), loss)

    def losses(self, subscription: str) -> tuple[Loss, ...]:
        """See `tidegate.ports.Ledger`."""
        return tuple(loss for _, loss in sorted(self._losses[subscription].items()))

    def open(self, batch: Batch, version: str, published: Published | None = None) -> Batch:
        """See `tidegate.ports.Ledger`; ValueError for a plan that can't be landed."""
        rules.check_plan(batch, published)
        with self._lock:
            known = [e.batch for e in self._entries.values() if e.batch.subscription == batch.subscription]
            others = {b.id: b.outcome for b in known if b.is_open or b.id == batch.id}
            rules.check_room(batch, version, self._version(batch.subscription), others)
            before = self._entries.pop(batch.id, None)
            earlier = before.earlier + before.started if before else ()
            cleared, causes = (before.cleared, before.causes) if before else ((), {})
            self._writes[batch.subscription] += 1
            number, now = self._writes[batch.subscription], self._now()
            self._note_positions(batch.subscription, batch.group, self._left_behind(batch), number)
            opened = _Entry(batch, number, now, now, earlier=earlier, cleared=cleared, causes=causes)
            self._entries[batch.id] = opened
            return batch if published is None else self.adopt(batch.id, published)

    def batch(self, batch_id: str) -> Batch:
        """See `tidegate.ports.Ledger`."""
        return self._entry(batch_id).batch

    def landed(self, batch_id: str, member: int, landed: Landed) -> Batch:
        """See `tidegate.ports.Ledger`; ValueError for a report that isn't of this member's share."""
        with self._lock:
            entry = self._entry(batch_id)
            if member in entry.reports:
                return entry.batch
            rules.check_report(entry.batch, member, landed)
            if not landed.ranges:
                return entry.batch
            reports = {**entry.reports, member: landed}
            return self._changed(replace(entry, reports=reports), rules.land(entry.batch, reports))

    def reported(self, batch_id: str, member: int) -> bool:
        """See `tidegate.ports.Ledger`."""
        entry = self._entries.get(batch_id)
        return entry is not None and member in entry.reports

    def start_delivery(self, batch_id: str) -> Delivery:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            delivery = Delivery(self.deliveries(batch_id) + 1, uuid.uuid4().hex)
            started = rules.start(entry.batch)
            self._changed(replace(entry, started=(*entry.started, (delivery, self._now()))), started)
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
        with self._lock:
            entry = self._entry(batch_id)
            won = rules.win(entry.batch, _known(entry, delivery), result, counts, reached)
            entry = self._entries[batch_id] = entry.ended(delivery, None)
            return entry.batch if won == entry.batch else self._changed(entry, won)

    def failed(self, batch_id: str, delivery: Delivery, reason: str, cause: Cause = Cause.SYSTEM) -> Batch:
        """See `tidegate.ports.Ledger`; StaleError for a delivery that this ledger didn't start."""
        with self._lock:
            entry = self._entry(batch_id)
            lost = rules.fail(entry.batch, _known(entry, delivery), reason)
            entry = self._entries[batch_id] = entry.ended(delivery, cause)
            return entry.batch if lost == entry.batch else self._changed(entry, lost)

    def adopt(self, batch_id: str, published: Published) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            adopted = rules.adopt(entry.batch, published)
            left = rules.left_out(entry.batch, published)
            self._note_positions(adopted.subscription, adopted.group, left, entry.number)
            return self._changed(entry, adopted)

    def resolve(self, batch_id: str, resolution: Resolution, reason: str | None = None) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            resolved = rules.resolve(entry.batch, resolution, reason)
            return entry.batch if resolved == entry.batch else self._changed(entry, resolved)

    def close(self, batch_id: str, outcome: Outcome, reason: str | None = None) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            closed = rules.close(entry.batch, outcome, reason)
            if closed == entry.batch:
                return entry.batch
            passed = rules.passed(entry.batch, outcome)
            self._note_positions(closed.subscription, closed.group, passed, entry.number)
            return self._changed(entry, closed)

    def remark(self, batch_id: str, text: str) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            remarked = rules.remark(entry.batch, text)
            return entry.batch if remarked == entry.batch else self._changed(entry, remarked)

    def deliveries(self, batch_id: str) -> int:
        """See `tidegate.ports.Ledger`; 0 for a batch that the ledger doesn't know."""
        entry = self._entries.get(batch_id)
        return len(entry.earlier + entry.started) if entry else 0

    def tries(self, batch_id: str) -> Tries:
        """See `tidegate.ports.Ledger`; none for a batch that the ledger doesn't know."""
        entry = self._entries.get(batch_id)
        if entry is None:
            return Tries()
        redelivered = [number for number, clearance in entry.cleared if clearance.answer is Resolution.REDELIVER]
        tokens = [delivery.token for delivery, _ in entry.earlier + entry.started]
        return Tries(tuple(map(entry.causes.get, tokens[max(redelivered, default=0) :])))

    def received(self, batch_id: str) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            return entry.batch if entry.batch.offsets_committed else self._changed(entry, rules.receive(entry.batch))

    def clear(self, batch_id: str, clearance: Decision) -> Batch:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entry(batch_id)
            cleared = (*entry.cleared, (self.deliveries(batch_id), rules.storable_clearance(clearance)))
            return self._changed(replace(entry, cleared=cleared), rules.clear(entry.batch, clearance.answer))

    def clearances(self, subscription: str, limit: int) -> tuple[tuple[str, Decision], ...]:
        """See `tidegate.ports.Ledger`."""
        found = [(e.batch.id, clearance) for e in self._of(subscription) for _, clearance in reversed(e.cleared)]
        return tuple(sorted(found, key=lambda one: one[1].at, reverse=True)[:limit])

    def begin_operation(self, run: str, by: str) -> None:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            if run in self._operations:
                raise rules.used_operation(run)
            self._operations[run] = by

    def note_alive(self, batch_id: str, token: str) -> None:
        """See `tidegate.ports.Ledger`; the subscription's version stays."""
        self._alive[batch_id, token] = self._now()

    def delivery_age(self, batch_id: str, token: str) -> DeliveryAge:
        """See `tidegate.ports.Ledger`; StaleError for a delivery that this ledger didn't start."""
        entry = self._entries.get(batch_id)
        for delivery, started_at in entry.earlier + entry.started if entry else ():
            if delivery.token == token:
                now = self._now()
                return DeliveryAge(now - started_at, now - self._alive.get((batch_id, token), started_at))
        raise rules.unknown_delivery(batch_id, token)

    def history(self, subscription: str, limit: int | None) -> tuple[HistoryEntry, ...]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            newest = self._of(subscription)[:limit]
            return tuple(
                HistoryEntry(e.batch, self.deliveries(e.batch.id), e.opened_at, e.closed_at, e.since) for e in newest
            )

    def newest_outputs(self, subscriptions: Collection[str]) -> dict[str, str]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            newest = {name: self._of(name)[:1] for name in subscriptions}
            return {name: entry.batch.output for name, entries in newest.items() for entry in entries}

    def outcomes(self, batch_ids: Collection[str]) -> dict[str, Outcome | None]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            return {
                batch_id: self._entries[batch_id].batch.outcome for batch_id in batch_ids if batch_id in self._entries
            }

    def written_outputs(self) -> frozenset[tuple[str, str]]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            kept = [e.batch for e in self._entries.values() if e.batch.is_open or e.batch.outcome in PUBLISHED]
            return frozenset((batch.subscription, batch.output) for batch in kept)

    def closed_files(self, subscription: str, newest: int) -> dict[str, frozenset[str]]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            closed = [e.batch for e in self._of(subscription) if e.closed_at is not None][:newest]
            return {batch.id: frozenset(file.uri for file in batch.files) for batch in closed}

    def last_ends(self, subscription: str, group: str) -> dict[TopicPartition, int]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            _, since = self._groups.get((subscription, group), (None, 0))
            newest = self._newest_committed(subscription, group)
            known = self._positions[subscription, group].items()
            noted = {tp: (offset, version) for tp, (offset, version, _) in known if version >= since}
            if newest is None:
                return rules.last_ends((), 0, noted)
            return rules.last_ends(newest.batch.ranges, newest.number, noted)

    def _newest_committed(self, subscription: str, group: str) -> _Entry | None:
        _, since = self._groups.get((subscription, group), (None, 0))
        of_group = [e for e in self._of(subscription) if e.batch.group == group and e.number >= since]
        return next((e for e in of_group if e.batch.offsets_committed), None)

    def _note_positions(
        self, subscription: str, group: str, offsets: Mapping[TopicPartition, int], version: int
    ) -> None:
        now = self._now()
        self._positions[subscription, group].update({tp: (offset, version, now) for tp, offset in offsets.items()})

    def _left_behind(self, batch: Batch) -> dict[TopicPartition, int]:
        """Where the partitions stand that the newest committed batch has and this one hasn't."""
        newest = self._newest_committed(batch.subscription, batch.group)
        gone = {r.at for r in newest.batch.ranges} - {r.at for r in batch.ranges} if newest else set()
        return {at: end for at, end in self.last_ends(batch.subscription, batch.group).items() if at in gone}

    def expired(self, subscription: str, before: datetime, beyond: int, limit: int) -> tuple[ExpiredBatch, ...]:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            found = [e for e in reversed(self._of(subscription)) if e.number > beyond and self._is_expired(e, before)]
            return tuple(
                ExpiredBatch(e.batch.id, e.number, e.closed_at, tuple(file.uri for file in e.batch.files))
                for e in found[:limit]
                if e.closed_at is not None
            )

    def forget(self, batch_id: str, before: datetime) -> bool:
        """See `tidegate.ports.Ledger`."""
        with self._lock:
            entry = self._entries.get(batch_id)
            if entry is None or not self._is_expired(entry, before):
                return False
            del self._entries[batch_id]
            return True

    def _is_expired(self, entry: _Entry, before: datetime) -> bool:
        batch = entry.batch
        newer = (e for e in self._of(batch.subscription) if e.number > entry.number and e.closed_at is not None)
        alike = ((e.batch.group, e.batch.offsets_committed) for e in newer)
        newest = (batch.group, batch.offsets_committed) not in alike
        return rules.is_expired(batch, entry.closed_at, before, decided=bool(entry.cleared), newest=newest)

    def _of(self, subscription: str) -> list[_Entry]:
        return [e for e in reversed(self._entries.values()) if e.batch.subscription == subscription]

    def _last_commit(self, subscription: str) -> datetime | None:
        committed = [e.closed_at for e in self._of(subscription) if e.batch.offsets_committed]
        of_subscription = [noted for (name, _), noted in self._positions.items() if name == subscription]
        noted = [at for positions in of_subscription for _, _, at in positions.values()]
        return max((at for at in (*committed, *noted) if at is not None), default=None)

    def _version(self, subscription: str) -> str:
        return f"{self._identity}:{self._writes[subscription]}"

    def _entry(self, batch_id: str) -> _Entry:
        if batch_id not in self._entries:
            raise rules.unknown_batch(batch_id)
        return self._entries[batch_id]

    def _changed(self, entry: _Entry, batch: Batch) -> Batch:
        """Keep the batch as it is now; until somebody has won, its delivery is the newest."""
        if entry.started and batch.attempt is None:
            batch = replace(batch, delivery=entry.started[-1][0])
        now = self._now()
        is_as_before = (batch.state, batch.resolution) == (entry.batch.state, entry.batch.resolution)
        since = entry.since if is_as_before else now
        closed_at = None if batch.is_open else now
        self._entries[batch.id] = replace(entry, batch=batch, since=since, closed_at=closed_at)
        self._writes[batch.subscription] += 1
        return batch


def _known(entry: _Entry, delivery: Delivery) -> Delivery:
    for started, _ in entry.started:
        if started.token == delivery.token:
            return started
    raise rules.unknown_delivery(entry.batch.id, delivery.token)
