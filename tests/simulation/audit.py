"""The promise, held against a history while it happens and once a clean runner has had its say.

Checked at every effect: a commit of ours never goes back, never passes a record that its strategy may not leave behind,
and never overwrites a foreign reset that it could have seen; what is published never changes. Checked at the end: each
record has come to the one end that its strategies have for it, a reset is honoured by a new incarnation, and nothing is
open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simulation.contents import before_any, check_contents, check_counts, first_places, landed_offsets, visible
from simulation.facts import NONE, Appeared, At, Facts, GivenUp, Records, listed, merged, source, union
from simulation.moves import Move, is_of
from simulation.promises import Promise, none
from simulation.script import TOPIC
from simulation.violation import ViolationError
from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed
from tidegate.steps.deliver import manifest_of
from tidegate.strategies.failure.delayed_retry import delay_ms
from tidegate.testing.effects import Effect

if TYPE_CHECKING:
    from simulation.world import World
    from tidegate.testing.lake import PublishedAttempt

_NEWEST = 3
_SILENT = 30  # seconds
_CHANGES_A_BATCH = frozenset({"resolve", "close", "adopt", "clear", "start_delivery", "processed", "failed"})
_CLEARING = ("clear", "")  # by a person, seen or unseen


@dataclass(frozen=True, slots=True)
class Look:
    """What there was when a runner asked for the group's positions: those, and what was acknowledged of each batch."""

    positions: Mapping[TopicPartition, Committed] = field(default_factory=dict)
    acknowledged_of: Mapping[str, Records] = field(default_factory=dict)


class Audit:
    """Notes what happens in a world, and raises ViolationError."""

    def __init__(self, subscription: Subscription, *, fencing: bool) -> None:
        self.subscription = subscription
        self.fencing = fencing
        self.expired = False
        self.lost_ledgers = 0
        self.positions: dict[TopicPartition, Committed] = {}
        self.appeared: dict[str, Appeared] = {}
        self.given_up: dict[str, GivenUp] = {}
        self.dead: dict[str, dict[At, int]] = {}
        self.produced = 0
        self.looked: dict[int, Look] = {}
        self.done: dict[int, Mapping[str, Records]] = {}
        self.overtaken: dict[str, Records] = {}  # by what a published batch rejected
        self.skipped: Records = NONE
        self.excused: Records = NONE
        self.stopped: frozenset[str] = frozenset()
        self.decided: frozenset[str] = frozenset()
        self.moves: dict[TopicPartition, Move] = {}
        self.asked: frozenset[tuple[TopicPartition, int]] = frozenset()  # where a person resets the group to
        self.replayed: frozenset[TopicPartition] = frozenset()
        self.compared: frozenset[int] = frozenset()
        self.older_batches: frozenset[str] = frozenset()
        self.older_files: frozenset[str] = frozenset()
        self.older_incarnations: frozenset[str] = frozenset()
        self.made: frozenset[str] = frozenset()
        self.begun: dict[str, float] = {}
        self.alive: dict[str, int] = {}  # whose delivery each token is, while its run goes on
        self.fenced_at: dict[int, float] = {}
        self.sent_at: dict[At, float] = {}

    @property
    def promise(self) -> Promise:
        """What is promised to the subscription."""
        return Promise.of(self.subscription, fencing=self.fencing)

    def facts(self, world: "World") -> Facts:
        """What has become of the records of this world."""
        everything = frozenset((at, o) for at in world.topics.logs if at.topic == TOPIC for o in visible(world, at))
        first = {(at, o): place for at in world.retry_partitions for o, place in first_places(world, at)}
        landed = {
            (TopicPartition(r.topic, r.partition), r.offset)
            for uri, file in world.landing.files.items()
            if uri not in self.older_files
            for r in file
        }
        return Facts(
            everything=everything,
            skipped=self.skipped,
            landed=frozenset(first.get(r, r) for r in landed),
            published=self.appeared,
            given_up=self.given_up,
            dead=self.dead,
            passed=frozenset(r for r in everything if self._is_past(*r)),
            excused=self.excused,
            replayed=self.replayed,
            may_repeat=not self.fencing or (self.expired and self.lost_ledgers > 0),
            may_repeat_within=not self.fencing and self.lost_ledgers > 0,
            acknowledged=self._of_topic(world.spark.acknowledged),
            overtaken=self._of_topic(merged(world.spark.overtaken, self.overtaken)),
            first=first,
            waiting=frozenset(place for (at, o), place in first.items() if not self._is_past(at, o)),
        )

    def _of_topic(self, by_incarnation: Mapping[str, Records]) -> Mapping[str, Records]:
        return {name: held for name, held in by_incarnation.items() if name not in self.older_incarnations}

    def _is_past(self, at: TopicPartition, offset: int) -> bool:
        position = self.positions.get(at)
        return position is not None and offset < position.offset and not self._is_of_older(position)

    def ledger_lost(self, world: "World") -> None:
        """An empty ledger takes the place of the one that was."""
        self.lost_ledgers += 1
        self.stopped = frozenset()
        facts = self.facts(world)
        self.excused |= self._forgotten(facts)

    def _forgotten(self, facts: Facts) -> Records:
        """What is committed and known of nowhere but in the ledger."""
        return (facts.passed & facts.landed) - self.promise.settled(facts) - facts.waiting - self.skipped

    def topic_recreated(self, world: "World") -> None:
        """Another topic has the name, whose records are other ones; what was promised of the older one's is kept."""
        older = {name: Appeared(batch.incarnation, batch.attempt, NONE) for name, batch in self.appeared.items()}
        batches = {o.batch.id: o.batch for name in world.names for o in world.ledger.history(name, None)}
        receipts = [Receipt.parse(position.metadata) for position in self.positions.values()]
        fresh = Audit(self.subscription, fencing=self.fencing)
        fresh.appeared, fresh.older_files = older, frozenset(world.landing.files)
        fresh.older_batches = self.older_batches | self.appeared.keys() | batches.keys()
        fresh.asked = self.asked
        fresh.older_incarnations = (
            self.older_incarnations
            | self.facts(world).incarnations
            | {receipt.incarnation for receipt in receipts if receipt}
            | {batch.receipt.incarnation for batch in batches.values()}
        )
        fresh.expired, fresh.lost_ledgers, fresh.produced = self.expired, self.lost_ledgers, self.produced
        fresh.looked, fresh.done, fresh.compared, fresh.made = self.looked, self.done, self.compared, self.made
        fresh.begun, fresh.alive = self.begun, self.alive
        vars(self).clear()
        vars(self).update(vars(fresh))

    def _is_older(self, batch: Batch) -> bool:
        """Whether a batch is of a topic that had the name before; one that landed since isn't, whatever it was."""
        return batch.id in self.older_batches and not any(f.uri not in self.older_files for f in batch.files)

    def _is_of_older(self, position: Committed) -> bool:
        receipt = Receipt.parse(position.metadata)
        return receipt is not None and receipt.incarnation in self.older_incarnations

    def returned(self, world: "World") -> None:
        """The group is in this cluster again; what a person began to accept elsewhere has abandoned the open batch."""
        self._look_at_the_ledger(world, "")

    def offsets_expired(self, world: "World") -> None:
        """The broker has forgotten positions, and with them whatever a foreign tool wanted."""
        self.expired = True
        self.positions = dict(world.offsets.positions)
        self.moves = {at: move for at, move in self.moves.items() if at in self.positions}

    def before_reset(self, world: "World", moved: Mapping[TopicPartition, int]) -> None:
        """A foreign tool is about to move the group."""
        facts = self.facts(world)
        receipts = [Receipt.parse(position.metadata) for position in world.offsets.positions.values()]
        known = {receipt.incarnation for receipt in receipts if receipt} | facts.incarnations
        for at, offset in moved.items():
            passed_over = {(at, o) for o in visible(world, at) if o < offset}
            self.skipped |= facts.at_first([passed_over])
            self.moves[at] = Move(offset, frozenset(known), self.compared)
            self.positions[at] = Committed(offset)
        self.replayed |= frozenset(moved)

    def _meant(self, world: "World") -> None:
        """A person's reset was committed: it holds from then on, whoever had compared before it."""
        facts = self.facts(world)
        receipts = [Receipt.parse(position.metadata) for position in self.positions.values()]
        known = facts.incarnations | {receipt.incarnation for receipt in receipts if receipt}
        for at, now in world.offsets.positions.items():
            receipt = Receipt.parse(now.metadata)
            if receipt is not None and receipt.incarnation not in known and (at, now.offset) in self.asked:
                self.skipped |= facts.at_first([{(at, o) for o in visible(world, at) if o < now.offset}])
                self.moves[at] = Move(now.offset, frozenset(known), frozenset(), is_honoured=True)
                self.replayed |= {at}
                self.positions[at] = now

    def stopped_run(self, runner: int) -> None:
        """The runner's run is over: what it had compared, it won't commit any more."""
        self.compared -= {runner}
        self.alive = {token: whose for token, whose in self.alive.items() if whose != runner}
        self.looked.pop(runner, None)
        self.done.pop(runner, None)

    def effected(self, world: "World", runner: int, effect: Effect) -> None:
        """An effect of a runner has happened."""
        match effect.port, effect.call:
            case "fence", "open" if world.retry_partitions:
                self.fenced_at[runner] = world.clock.monotonic()
            case "ledger", "open" if world.retry_partitions:
                self._check_due(world)
            case "fence", "committed":
                self.compared |= {runner}
                self.done[runner] = dict(world.spark.acknowledged_of)
                self.moves = {at: replace(m, compared=m.compared - {runner}) for at, m in self.moves.items()}
            case "fence", "commit":
                self._bury(world, runner)
                self._committed(world, runner)
                self.compared -= {runner}
            case "offsets", "committed" if world.spark.acknowledges:
                self.looked[runner] = Look(dict(world.offsets.positions), dict(world.spark.acknowledged_of))
                world.noted()
            case "processor", "begin":
                self._check_handed(world, self.looked.get(runner, Look()))
            case ("lake", "publish") | ("log", "append" | "load"):
                self._look_at_the_lake(world)
            case "lake", _:
                self._unchanged(world)
            case "ledger", (
                "resolve" | "close" | "adopt" | "clear" | "start_delivery" | "processed" | "failed" | "begin_reset"
            ) as call:
                self._check_alive(world, runner, call)
                self._look_at_the_ledger(world, call)
                self._check_thrown_away(world)
                world.noted()

    def ended_late(self, world: "World") -> None:
        """A transaction took effect whose committer doesn't know it."""
        self._bury(world)
        self._committed(world, -1, is_late=True)

    def look(self, world: "World") -> None:
        """A runner has worked alone, its effects unseen."""
        self._look_at_the_lake(world)
        self._look_at_the_ledger(world, "")
        self._bury(world)
        self._committed(world, -1)

    def _look_at_the_lake(self, world: "World") -> None:
        """Something may have been published."""
        self._unchanged(world)
        for (_, batch_id), published in world.lake.published_attempts.items():
            if batch_id not in self.appeared:
                self._appear(world, batch_id, published)

    def _unchanged(self, world: "World") -> None:
        now = {batch_id: held.attempt.result for (_, batch_id), held in world.lake.published_attempts.items()}
        for batch_id, batch in self.appeared.items():
            result = now.get(batch_id)
            if result is None or result.attempt != batch.attempt:
                raise ViolationError(f"the published batch {batch_id} was replaced or taken away")

    def _appear(self, world: "World", batch_id: str, published: "PublishedAttempt") -> None:
        batch, result = published.manifest.batch, published.attempt.result
        if result is None:
            raise ViolationError(f"batch {batch_id} was published without a result")
        if self._is_older(batch):
            self.appeared[batch_id] = Appeared(batch.receipt.incarnation, result.attempt, NONE)
            return
        if batch_id in self.given_up and self.given_up[batch_id].is_settled:
            raise ViolationError(f"batch {batch_id} was published, and it had been given up")
        written = [(TopicPartition(t, p), o) for t, p, o in world.spark.contents[result.attempt]]
        rejected = frozenset((each.at, each.offset) for each in published.attempt.rejected)
        name = batch.receipt.incarnation
        self.overtaken[name] = self.overtaken.get(name, NONE) | before_any(rejected, written)
        done = self.promise.order.also(replace(self.facts(world), first={}), name)
        check_contents(world, batch, written, rejected, done)
        if rejected and not self.promise.ends.may_reject:
            raise ViolationError(f"batch {batch_id} was published though {listed(rejected)} had been rejected")
        self.given_up.pop(batch_id, None)
        held = {r for r in written if result.ack_files is None or r in done}
        self.appeared[batch_id] = Appeared(name, result.attempt, frozenset(held), rejected)
        self._check_doubled(world, f", now batch {batch_id}")
        self._check_behind(world, batch)

    def _check_handed(self, world: "World", looked: "Look") -> None:
        """What was acknowledged, without a gap, or committed when the delivery looked isn't handed to its job."""
        began, world.spark.began = world.spark.began, None
        if began is None or self._is_older(began.batch):
            return
        for r in began.batch.ranges:
            stands = looked.positions.get(r.at)
            if stands and is_of(stands, began.batch.receipt.incarnation) and r.start < stands.offset < r.end:
                raise ViolationError(f"{began.batch} hands on {r} again, of which {stands.offset} was committed")
            handed = [(r.at, o) for o in landed_offsets(world, began.batch, r.at) if r.start <= o < r.end]
            of_batch = looked.acknowledged_of.get(began.batch.id, NONE)
            if again := self.promise.order.not_again(handed, of_batch):
                raise ViolationError(f"{r} is handed on again, and {listed(again)} had been acknowledged")

    def _check_behind(self, world: "World", published: Batch) -> None:
        """Of one incarnation, the group stands behind one published batch at most: the open one."""
        if not self.fencing or not self.promise.order.is_kept:
            return
        at = {tp: p.offset for tp, p in world.offsets.positions.items() if is_of(p, published.receipt.incarnation)}
        ahead = [
            name
            for name, batch in self.appeared.items()
            if batch.incarnation == published.receipt.incarnation
            and any(tp in at and o >= at[tp] for tp, o in batch.records)
        ]
        if len(ahead) > 1:
            raise ViolationError(f"the group stands behind several published batches: {', '.join(ahead)}")

    def _check_due(self, world: "World") -> None:
        """A record of a retry topic isn't handed out before it is due, whatever clocks the machines have."""
        now = world.clock.monotonic()
        for r in [r for batch in world.ledger.open_batches() for r in batch.ranges if r.at in world.retry_partitions]:
            for offset in (offset for offset in visible(world, r.at) if r.start <= offset < r.end):
                waits = self.sent_at.get((r.at, offset), now) + delay_ms(r.topic) / 1000 - now
                if waits > 0:
                    raise ViolationError(f"{r.at}@{offset} is handed out {waits:.1f} s before it is due")

    def _check_thrown_away(self, world: "World") -> None:
        """What deliveries made within their time, all of them, isn't given up for having taken too long."""
        limit, now = self.subscription.consumer.max_poll_interval_ms / 1000, world.clock.monotonic()
        for batch in world.ledger.open_batches():
            if batch.delivery is not None:
                self.begun.setdefault(batch.id, now)
            if batch.state is State.PROCESSED:
                self.made |= {batch.id}
                continue
            if batch.id in self.made and batch.state is State.FAILED and batch.delivery is not None:
                took = now - self.begun[batch.id]
                staging = manifest_of(batch, batch.delivery, self.subscription, world.lake).staging
                if took <= limit and world.lake.results(staging):
                    raise ViolationError(f"batch {batch.id} is failed {took:.1f} s after it was begun: {batch.reason}")
            self.made -= {batch.id}

    def _check_alive(self, world: "World", runner: int, call: str) -> None:
        """Nobody ends the delivery of another who gave a sign of life just now."""
        for batch in world.ledger.open_batches():
            token = batch.delivery.token if batch.delivery else ""
            if call == "start_delivery" and batch.state is State.PROCESSING:
                self.alive.setdefault(token, runner)
            if batch.state is not State.FAILED or token not in self.alive:
                continue
            if self.alive.pop(token) != runner and call == "failed":
                silent = world.ledger.delivery_age(batch.id, token).silent.total_seconds()
                if silent <= _SILENT:
                    raise ViolationError(f"batch {batch.id} is failed {silent:.1f} s after a sign of life of another")

    def _look_at_the_ledger(self, world: "World", call: str) -> None:
        """What the newest batches have come to: which are given up, and which wait for a person."""
        begun = [each for name in world.names for each in world.ledger.resets(name, 1)] if call == "begin_reset" else []
        self.asked |= {(change.at, change.after) for reset in begun for change in reset.changes}
        for outcome in [each for name in sorted(world.names) for each in world.ledger.history(name, _NEWEST)]:
            batch = outcome.batch
            if self._is_older(batch):
                continue
            if batch.state is State.PROCESSING and batch.id in self.stopped:
                raise ViolationError(f"batch {batch.id} was stopped, and delivered again though nobody had cleared it")
            waits = batch.state is State.HELD
            gives_up = batch.is_discarded
            if gives_up and call == "clear":
                self.decided |= {batch.id}
            by_a_person = batch.id in self.stopped | self.decided
            if gives_up and not by_a_person and batch.resolution not in self.promise.ends.gives_up:
                raise ViolationError(f"batch {batch.id} is {batch.condition}, and nobody said so")
            if batch.condition in ("ignoring", "ignored"):
                self._give_up(world, batch)
            elif batch.id in self.given_up and not self.given_up[batch.id].is_settled:
                del self.given_up[batch.id]
            if waits:
                self.stopped |= {batch.id}
            elif not gives_up and (call in _CLEARING or not batch.is_open):
                self.stopped -= {batch.id}

    def _give_up(self, world: "World", batch: Batch) -> None:
        records = union({(r.at, o) for o in visible(world, r.at) if r.start <= o < r.end} for r in batch.ranges)
        self.given_up[batch.id] = GivenUp(batch.receipt.incarnation, records, batch.outcome is Outcome.IGNORED)
        if batch.outcome is Outcome.IGNORED and batch.id in self.appeared:
            raise ViolationError(f"batch {batch.id} was given up, and it is published")

    def _bury(self, world: "World", runner: int | None = None) -> None:
        """Dead letters and retries were produced."""
        now = world.clock.monotonic()
        for at in world.retry_partitions:
            for offset in world.topics.logs[at].entries:  # it has its timestamp since the fence was taken, or later
                self.sent_at.setdefault((at, offset), now if runner is None else self.fenced_at.get(runner, now))
        new = [each for each in world.produced[self.produced :] if each.value == world.script.value]
        self.produced = len(world.produced)
        done = {} if runner is None else self.done.get(runner, {})
        self._check_leaving(world, frozenset(map(source, new)), done)
        letters = [each for each in new if each.topic not in self.subscription.retry_topics]
        for at, offset in map(source, letters):
            position = world.offsets.positions.get(at)
            receipt = Receipt.parse(position.metadata) if position else None
            dead = self.dead.setdefault(receipt.incarnation if receipt else "", {})
            dead[at, offset] = dead.get((at, offset), 0) + 1
        if letters:
            self._check_doubled(world, ", now a dead letter")

    def _check_leaving(self, world: "World", leaving: Records, done: Mapping[str, Records]) -> None:
        """What leaves goes with the commit that passes it; of a batch that is given up, what was done with stays."""
        positions = world.offsets.positions
        moved = {at for at, move in self.moves.items() if not move.is_honoured}  # since, by a foreign tool
        early = {(at, o) for at, o in leaving if at in positions and at not in moved and o >= positions[at].offset}
        if self.fencing and self.promise.order.in_the_commit and early:
            raise ViolationError(f"{listed(early)} left before a commit had passed it")
        batch = world.ledger.look(self.subscription.name).open
        if batch and batch.is_discarded and (again := leaving & done.get(batch.id, NONE)):
            raise ViolationError(f"{listed(again)} left with batch {batch.id}, and had been acknowledged")

    def _check_doubled(self, world: "World", why: str) -> None:
        for doubled in self.promise.doubled(self.facts(world)):
            raise ViolationError(f"{doubled}{why}")

    def _committed(self, world: "World", runner: int, *, is_late: bool = False) -> None:
        """Positions may have moved; `is_late`: by what may have been sent before the topic was deleted."""
        if not self.promise.order.is_kept:
            if world.offsets.positions != self.positions:
                raise ViolationError(
                    f"the group was moved to {world.offsets.positions}, and nothing is to be committed"
                )
            return
        self._meant(world)
        for at, now in world.offsets.positions.items():
            before = self.positions.get(at)
            if now == before:
                continue
            move = self.moves.get(at)
            if move is not None and not move.is_honoured:
                del self.moves[at]
                if still := move.after(at, now, runner, fencing=self.fencing, is_late=is_late):
                    self.moves[at] = still
            elif (
                before is not None
                and now.offset < before.offset
                and self.fencing
                and not self._may_go_back(before, now)
            ):
                raise ViolationError(f"{at} went back from {before.offset} to {now.offset}, and nobody else moved it")
        if self.positions != world.offsets.positions:
            if not is_late:
                self._check_of_newer(world.offsets.positions)
            self.positions = dict(world.offsets.positions)
            self._check_passed(world)

    def _may_go_back(self, before: Committed, now: Committed) -> bool:
        """In a newer topic, or to the end of a batch of which a slower delivery had acknowledged more."""
        then, since = Receipt.parse(before.metadata), Receipt.parse(now.metadata)
        is_acknowledged = self.promise.order.also is not none
        is_its_commit = then and since and (since.incarnation, since.number) == (then.incarnation, then.number + 1)
        return self._is_of_older(before) or bool(is_acknowledged and is_its_commit)

    def _check_of_newer(self, positions: Mapping[TopicPartition, Committed]) -> None:
        """What was known of an older topic of the name moves nothing in this one."""
        changed = {at: now for at, now in positions.items() if now != self.positions.get(at)}
        if moved := sorted(f"{at} to {now.offset}" for at, now in changed.items() if self._is_of_older(now)):
            raise ViolationError(f"moved in another topic of the name than the batch was read from: {moved}")

    def _check_passed(self, world: "World") -> None:
        facts = self.facts(world)
        if self.lost_ledgers:  # a commit that was under way when the ledger was lost
            ranges = [r for batch in world.ledger.open_batches() for r in batch.ranges]
            known = union({(r.at, o) for o in range(r.start, r.end)} for r in ranges)
            self.excused |= self._forgotten(facts) - facts.at_first([known])
            facts = self.facts(world)
        if passed := self.promise.passed_too_early(facts):
            where = ", ".join(f"{at} at {self.positions[at].offset}" for at in sorted({at for at, _ in passed}))
            raise ViolationError(f"committed {where}, past {listed(passed)}, published nowhere")

    def check_end(self, world: "World") -> None:
        """Everything has been read: nothing may be missing, and a reset that wasn't overwritten has its replay."""
        facts = self.facts(world)
        if lost := self.promise.lost(facts):
            raise ViolationError(f"lost: {listed(lost)}, published nowhere")
        check_counts(world)
        is_forgetful = (
            self.lost_ledgers and not self.promise.order.in_the_commit
        )  # what was committed before it was made
        forgotten = facts.passed & facts.landed if is_forgetful else NONE
        for at, move in self.moves.items() if self.fencing else ():  # who sleeps without a fence may undo a reset
            names = facts.incarnations - move.incarnations
            again = union(self.promise.settled(facts, name) for name in names) | facts.excused | forgotten
            due = facts.at_first([{(at, o) for o in visible(world, at) if o >= move.offset}])
            if unread := due - again:
                raise ViolationError(f"{at} was reset to {move.offset}, and {listed(unread)} never came again")
