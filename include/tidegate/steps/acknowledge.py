"""Acknowledge: commit what the job acknowledges while it runs, and say at its end how far it came."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

from tidegate.model.acknowledged import Acknowledged, Acknowledgements, KnownOffsets
from tidegate.model.batch import Batch, PartialRange, State
from tidegate.model.counting import counted, first_of
from tidegate.model.errors import (
    BatchFailedError,
    CommitFailedError,
    CommitUnknownError,
    GroupInUseError,
    StaleError,
    UnavailableError,
    message,
)
from tidegate.model.manifest import Manifest, Result
from tidegate.model.offsets import TopicPartition, starts
from tidegate.steps.context import Context
from tidegate.steps.loss import created_again
from tidegate.strategies.commit.interpret import Interpretation, Moved, Resume, ResumeFrom, interpret
from tidegate.strategies.commit.partial_commits import PartialCommits, reached, rest_of

log = logging.getLogger(__name__)

_NAMED = 5
_PREFIX_ONLY = "commit-strategy: throttled commits no further than the first of such records"
_PASSING = (UnavailableError, GroupInUseError, CommitFailedError, CommitUnknownError)


class AckReader:
    """What of a batch is acknowledged, as far as files were taken; each is read once.

    The offsets that landed are read when they are first asked for, and kept.
    """

    def __init__(self, ctx: Context, batch: Batch) -> None:
        self._ctx = ctx
        self._batch = batch
        self._taken: set[str] = set()
        self._awaited: Mapping[TopicPartition, Acknowledgements] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no file was taken yet."""
        return not self._taken

    def take(self, files: Iterable[str]) -> None:
        """Take files of acknowledged or rejected records."""
        for file in files:
            if file not in self._taken:
                self._ctx.staged.read_acks(file, self._whole)
                self._taken.add(file)

    def take_of_batch(self) -> None:
        """Take what all deliveries of the batch have acknowledged, also those whose staging is set aside, maybe now."""
        looked_into: frozenset[str] = frozenset()
        while (folders := self._staged()) - looked_into:
            for folder in sorted(folders):
                self.take_known(self._ctx.staged.ack_files(folder))
            looked_into = folders

    def _staged(self) -> frozenset[str]:
        return self._ctx.lake.staged_folders(self._batch.output).get(self._batch.id, frozenset())

    def take_known(self, files: Iterable[str]) -> None:
        """Take what files name of the batch's records: of deliveries that failed, or were handed more than these.

        A file that can't be one of acknowledgements is left out, with a warning.
        """
        for file in files:
            if file in self._taken:
                continue
            try:
                self._ctx.staged.read_acks(file, {at: KnownOffsets(one) for at, one in self._whole.items()})
            except BatchFailedError as error:
                log.warning("acknowledgements are left out: %s (%s)", error, self._batch)
            self._taken.add(file)

    def now(self) -> dict[TopicPartition, Acknowledged]:
        """What is acknowledged of each range's records."""
        return {at: one.now() for at, one in self._whole.items()}

    @property
    def _whole(self) -> Mapping[TopicPartition, Acknowledgements]:
        if self._awaited is None:
            self._awaited = self._ctx.landing.pending_acks(self._batch)
        return self._awaited


class Acknowledging:
    """The acknowledgements of one delivery, by a commit strategy that goes by them.

    `begin` finds out what is left to deliver; `watching` is the time in which a job runs, and looks once more if it
    ends badly; a job that runs is watched by `watched`; `settled` says how far it came.
    """

    def __init__(self, ctx: Context, batch: Batch, commits: PartialCommits) -> None:
        self._ctx = ctx
        self._batch = batch
        self._commits = commits
        self._tally = AckReader(ctx, batch)
        self._begun: Mapping[TopicPartition, int] = starts(batch.ranges)
        self.passed_over: str | None = None
        """What no delivery acknowledged and none delivers any more, in words; known once this one has begun."""
        self._stands = dict(self._begun)
        self._received = self._since = ctx.clock.monotonic()
        self._looking = Lock()

    def begin(self) -> Batch:
        """The batch as it is to be handed to the job: all of it, or the rest behind what was committed of it.

        What earlier deliveries acknowledged is committed first. Errors are those of `catch_up`.
        """
        earlier = self.catch_up()
        self._begun = dict(self._stands)
        if self._begun == starts(self._batch.ranges):
            return self._batch
        acknowledged = earlier.now()
        rest = rest_of(self._batch, self._begun, acknowledged)
        where = _listed(self._begun)
        log.info("part is committed, %d records are left: %s (%s)", rest.landed_records, where, self._batch)
        self.passed_over = _passed_over(self._batch, self._begun, acknowledged)
        if self.passed_over:
            log.warning("%s", message(self.passed_over, self._batch, _PREFIX_ONLY))
        return rest

    def catch_up(self) -> AckReader:
        """Commit what earlier deliveries acknowledged, which is returned, where who watched them died before.

        Raises StaleError if the group was moved by somebody else, the batch is committed or another run has gone on
        with it, and UnavailableError, GroupInUseError, CommitFailedError or CommitUnknownError for what stands in the
        way of a commit that is due.
        """
        committed = self._ctx.offsets.committed([r.at for r in self._batch.ranges])
        self._stands = dict(self._positions(interpret(self._batch.commit_policy, self._batch, committed)))
        tally = AckReader(self._ctx, self._batch)
        tally.take_of_batch()
        self._commit(tally, self._refuse_change)
        return tally

    @contextmanager
    def watching(self, manifest: Manifest) -> Iterator[None]:
        """The time from when the job is given its records until its result is accepted.

        However that ends otherwise, what the job acknowledged is committed once more before: it has done with that.
        What stands in the way of it is logged, the next delivery begins with the same.
        """
        self._received = self._since = self._ctx.clock.monotonic()
        try:
            yield
        except BaseException:
            self._look_once_more(manifest)
            raise

    def watched(self, manifest: Manifest) -> None:
        """Commit what is acknowledged, if that is due; what stands in the way for now is tried again when it is next.

        Raises BatchFailedError for a record that has waited too long or an acknowledgement of none that landed,
        StaleError if the batch isn't this delivery's any more.
        """
        if not self._is_due(self._ctx.clock.monotonic()):
            return
        with self._looking:
            with self._tried_again():
                self._tally.take(self._ctx.staged.ack_files(manifest.staging))
                with self._tried_again():
                    self._commit(self._tally, lambda: self._refuse_others(manifest))
                self._check()
            self._since = self._ctx.clock.monotonic()

    def settled(self, manifest: Manifest, result: Result) -> tuple[PartialRange, ...]:
        """What the delivery didn't bring to the end of its range; nothing where everything is acknowledged.

        What an attempt rejected is done with. Raises BatchFailedError if it acknowledged nothing.
        """
        if result.ack_files is None:
            return ()
        self._tally.take(self._ctx.staged.settled_files(manifest.staging, result))
        acknowledged = self._tally.now()
        ends = self._stands | self._commits.offsets(self._batch, acknowledged, self._stands)
        return reached(self._batch, acknowledged, self._begun, ends)

    def _is_due(self, now: float) -> bool:
        """Whether a commit is, or the first look at records that have waited too long."""
        expires = self._commits.expires(self._received)
        return now >= self._commits.next_run(self._since) or (expires is not None and self._since <= expires < now)

    @contextmanager
    def _tried_again(self) -> Iterator[None]:
        try:
            yield
        except _PASSING as error:
            log.warning("what is acknowledged isn't committed, tried again later: %s (%s)", error, self._batch)

    def _look_once_more(self, manifest: Manifest) -> None:
        with self._looking:
            try:
                self._tally.take_known(self._ctx.staged.ack_files(manifest.staging))
                self._commit(self._tally, lambda: self._refuse_others(manifest))
            except Exception as error:  # noqa: BLE001 (what ended the delivery is to be told, and not this)
                why = f"what is acknowledged isn't all committed: {error}"
                log.warning("%s", message(why, self._batch, "the next run looks"))

    def _commit(self, tally: AckReader, refuse: Callable[[], None]) -> None:
        """Commit what is acknowledged, unless `refuse` raises: before the fence, which is another's, or under it."""
        if tally.is_empty:
            return
        acknowledged = tally.now()
        if not self._commits.offsets(self._batch, acknowledged, self._stands):
            return
        refuse()
        with self._ctx.offsets.fence() as fence:
            refuse()
            committed = fence.committed([r.at for r in self._batch.ranges])
            self._stands = dict(self._positions(interpret(self._batch.commit_policy, self._batch, committed)))
            moved = self._commits.offsets(self._batch, acknowledged, self._stands)
            again = created_again(self._batch, committed, self._ctx.source, self._ctx.ledger)
            moved = {at: offset for at, offset in moved.items() if at.topic not in again}
            fence.commit(moved, str(self._batch.receipt))
        self._stands |= moved
        log.info("acknowledged and committed: %s (%s)", _listed(moved), self._batch)

    def _refuse_change(self) -> None:
        """The ledger has the batch as it was when it was looked at."""
        now = self._ctx.ledger.batch(self._batch.id)
        if (now.state, now.delivery) != (self._batch.state, self._batch.delivery):
            raise StaleError(
                message(f"another run has gone on with this batch, it is {now.state}: nothing is lost", now)
            )

    def _refuse_others(self, manifest: Manifest) -> None:
        """The ledger still has this delivery."""
        batch = self._ctx.ledger.batch(self._batch.id)
        if batch.state is not State.PROCESSING or batch.delivery != manifest.delivery:
            raise StaleError(
                message(f"the batch is {batch.condition}, and no more delivery {manifest.delivery.number}'s", batch)
            )

    def _positions(self, stands: Interpretation) -> Mapping[TopicPartition, int]:
        match stands:
            case Resume():
                return starts(self._batch.ranges)
            case ResumeFrom(positions):
                return positions
            case Moved(reason):
                left = "nothing more is committed, the next run abandons the batch"
                raise StaleError(message(reason, self._batch, left))
            case _:
                raise StaleError(message("the batch is committed already", self._batch, "the next run finds out"))

    def _check(self) -> None:
        now, expires = self._ctx.clock.monotonic(), self._commits.expires(self._received)
        if expires is not None and now > expires:
            acknowledged = self._tally.now()
            self._commits.check(self._batch, acknowledged, self._stands, received=self._received, now=now)


def _passed_over(
    batch: Batch, begun: Mapping[TopicPartition, int], acknowledged: Mapping[TopicPartition, Acknowledged]
) -> str | None:
    committed = [replace(r, end=begun[r.at], end_epoch=None) for r in batch.ranges if r.at in acknowledged]
    offsets = [(r.at, offset) for r in committed for offset in acknowledged[r.at].unacknowledged(r).tolist()]
    if not offsets:
        return None
    verb = (
        "lies before what is committed, and isn't" if len(offsets) == 1 else "lie before what is committed, and aren't"
    )
    named = first_of([f"{at} at {offset}" for at, offset in offsets], _NAMED)
    return f"{counted(len(offsets), 'record')} that no delivery acknowledged {verb} delivered any more: {named}"


def _listed(positions: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{at} at {offset}" for at, offset in positions.items())
