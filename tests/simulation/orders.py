"""What may become of one effect, besides that it happens: a question or an answer is lost, a driver lives on."""

from enum import Enum

from tidegate.model.errors import (
    BatchFailedError,
    BrokerUnavailableError,
    CommitUnknownError,
    TidegateError,
    UnavailableError,
)
from tidegate.testing.effects import Effect


class Order(Enum):
    """What the scheduler has an effect do; the values complete the sentence `it ...`."""

    GO = "happens"
    LOSE_QUESTION = "doesn't happen, and the caller can't tell"
    LOSE_ANSWER = "happens, and the caller can't tell"
    OUTLIVE = "goes on without its task: the Spark driver may finish later"
    TWICE = "happens twice: the cluster restarts the Spark driver"
    LATE = "is sent and takes effect later, and the caller can't tell"
    REPEATED = "happens, and its end is sent once more and comes late"
    PARTLY = "happens for the first partition only, and the caller is told so"
    FAIL = "fails: the job ends badly"
    REJECT = "rejects the first record"
    REJECT_LAST = "rejects the last record"
    REJECT_ALL = "rejects every record"
    OVERTAKE = "acknowledges the last record first"
    LEAVE = "acknowledges nothing more, and the job comes to its end"


_LOCAL = frozenset(
    {
        *("reader.open", "reader.next", "reader.progress", "reader.close"),
        *("writer.open", "writer.write", "writer.files", "fence.close"),
        "processor.check",
        "ledger.now",
        *("source.partitions", "source.watermarks", "source.offsets_at", "source.topic_ids"),
    }
)
UNSHARED = _LOCAL | {"landing.put_manifest", "lake.prepare", "staged.make_folder"}
"""Effects that no other runner can see or change: to switch to one before is to do so after."""

READS = _LOCAL | frozenset(
    {
        *("ledger.look", "ledger.batch", "ledger.reported", "ledger.deliveries", "ledger.delivery_age"),
        *(
            "ledger.history",
            "ledger.states",
            "ledger.last_ends",
            "ledger.losses",
            "ledger.closed_files",
            "ledger.tries",
            "ledger.clearances",
        ),
        *("letters.extent", "letters.id", "letters.read", "letters.partitions_of"),
        *("redrives.marks", "redrives.check_turn", "redrive_fence.committed"),
        *("offsets.committed", "fence.committed", "landing.data_files", "landing.verify", "landing.records"),
        *("staged.results", "staged.seal", "staged.has_attempt", "lake.published", "lake.staged_folders"),
        *("staged.rejections", "lake.rejected", "staged.rejected_by", "staged.verified"),
        *(
            "lake.require_writable",
            "lake.is_passed",
            "lake.has_forgotten",
            "lake.is_absent",
            "lake.has_generation",
            "log.load",
            "log.is_undone",
            "log.note",
            "log.notes",
        ),
        *("staged.ack_files", "staged.settled_files", "staged.read_acks", "landing.pending_acks"),
    }
)
"""Effects that change nothing for anybody else: whether they happened makes no difference once the answer is lost."""

_FAILURES = {
    "processor.run": (Order.FAIL, Order.REJECT, Order.REJECT_ALL),
    "processor.acknowledge": (Order.FAIL, Order.REJECT, Order.REJECT_LAST, Order.OVERTAKE, Order.LEAVE),
    "processor.end": (Order.FAIL,),
}
FROM_THE_JOB = frozenset({Order.OUTLIVE, Order.TWICE, *(order for orders in _FAILURES.values() for order in orders)})
"""Orders that the job carries out."""

_CERTAIN = frozenset(
    {"fence.close", "redrive_fence.close", "reader.close", "reader.progress", "writer.files", "writer.write"}
)
_BROKERS = frozenset({"source", "offsets", "fence", "letters", "redrive_offsets", "redrive_fence"})


def failures(effect: Effect) -> tuple[Order, ...]:
    """What the job itself can do otherwise than well."""
    return _FAILURES.get(str(effect), ())


def mishaps(effect: Effect) -> tuple[Order, ...]:
    """What else than happen the effect can do."""
    name = str(effect)
    if effect.port == "clock" or name in _CERTAIN:
        return ()
    if name in ("processor.begin", "processor.acknowledge"):
        return (Order.LOSE_QUESTION, Order.LOSE_ANSWER, Order.OUTLIVE)
    if effect.port == "processor":
        return (Order.LOSE_QUESTION, Order.LOSE_ANSWER, Order.OUTLIVE, Order.TWICE)
    if name in READS:
        return (Order.LOSE_QUESTION,)
    return (Order.LOSE_QUESTION, Order.LOSE_ANSWER)


def lost(effect: Effect) -> TidegateError:
    """What the port raises when there is no answer."""
    text = f"simulated: no answer to {effect}"
    if str(effect) in ("fence.commit", "redrive_fence.commit"):
        return CommitUnknownError(text)
    if effect.port == "processor":
        return BatchFailedError(text)
    return BrokerUnavailableError(text) if effect.port in _BROKERS else UnavailableError(text)
