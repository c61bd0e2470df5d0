"""Every error of the engine, grouped by what whoever catches it should do."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

_ROOM = 200


class TidegateError(Exception):
    """The root of all errors that Tidegate raises on purpose; its text says what to do."""


class WrongDefinitionError(TidegateError):
    """A definition, a setting or a connection is wrong: change it; trying again can't help."""


class MisfitError(WrongDefinitionError):
    """A delivery's rows don't fit the table: change the transform, the definition or the table; deliver again then."""


class PartitioningError(MisfitError):
    """A delivery's rows are partitioned otherwise than the table: correct the definition, and plan the batch anew."""


class UnauthorizedError(WrongDefinitionError):
    """A store, a catalog or a server refuses: mend the keys, or give them the right; trying again can't help."""


LONGER = (
    "raise consumer.max.poll.interval.ms: this batch keeps its size, and a lower consumer.max.poll.records makes the "
    "next one smaller"
)
"""What to do where a delivery took too long."""


DELIVERED_AGAIN = "the batch is delivered again, unless that was its last try"
"""What becomes of a batch whose delivery published nothing."""
LOOK_AT_BROKER = "look at the connection's bootstrap.servers and security.protocol, and at the broker"
"""What to do where no broker answers in time."""
OWN_GROUP = (
    "stop them; or, once no batch is open, give the subscription a consumer.group.id of its own, and take its "
    "positions along (`tidegate group describe NAME --offsets >FILE` before, `tidegate group reset NAME --to FILE` "
    "after)"
)
"""What to do about live members of a subscription's group."""


class UnusableLedgerError(WrongDefinitionError):
    """The ledger that TIDEGATE_LEDGER names can't be used as it is: name another one, or put it right."""


class UnavailableError(TidegateError):
    """A system didn't answer in time: try again later. Nothing has changed, unless the text says that it may have."""


class BrokerUnavailableError(UnavailableError):
    """No broker answered in time: for a plan that is an empty poll."""


class SparkUnavailableError(UnavailableError):
    """Spark can't be reached: no delivery counts for it; try again later."""


class StaleError(TidegateError):
    """Somebody else went on in the meantime: drop what you hold; the next run finds out where things stand."""


class RewrittenFilesError(StaleError):
    """Files that a delivery replaces have left the table: nothing is committed; deliver again on what is there now."""


class OvertakenError(StaleError):
    """Another run of the subscription has taken what this one was about to: nothing is lost, nothing is left to do."""


class GroupInUseError(TidegateError):
    """Live consumers are in the group: stop them, or give the subscription a group of its own."""


class LostDataError(TidegateError):
    """Records that were never landed are gone, or can't be read: a person decides how to go on."""


class CorruptFileError(TidegateError):
    """A file isn't as it was written: look at its disk; the text says whether it is made anew by itself."""


class BatchFailedError(TidegateError):
    """A delivery of the batch failed and nothing was committed: mend the job, then deliver again."""


class EarlierStepError(BatchFailedError):
    """An earlier step of the run failed, or was ended by hand: what that one says is to be mended."""


class RecordsFailedError(BatchFailedError):
    """The transform or its records failed the delivery: at the limit the failure strategy decides about them."""


class InterruptedDeliveryError(BatchFailedError):
    """The delivery was interrupted, its Spark job stopped; it doesn't count: run again."""


class StoppedError(TidegateError):
    """The batch failed as often as it may, and the subscription stands still: mend the job, then clear it."""


class RefusedAnswerError(StoppedError):
    """What somebody answered about the batch can't be done, and nobody is asked any more: mend that, answer again."""


class DeliveryTimeoutError(BatchFailedError):
    """The delivery took longer than `consumer.max.poll.interval.ms`: raise it, or take smaller batches."""


class CommitFailedError(TidegateError):
    """The broker refused the commit for at least one partition: nothing counts as committed; run again."""


class CommitUnknownError(TidegateError):
    """The commit's answer never came: don't guess; the next run reads the offsets and finds out."""


class TransitionError(TidegateError):
    """A step asked for a change that the batch's state doesn't allow: somebody else was faster, or a bug."""


def kinds(name: str) -> tuple[str, ...]:
    """The name of a class of errors and those of the ones that it is a kind of, the nearest first.

    `MisfitError, WrongDefinitionError, TidegateError`. The name alone for a class that isn't loaded.
    """
    found = next((each for each in _descendants(TidegateError) if each.__name__ == name), None)
    if found is None:
        return (name,)
    return tuple(each.__name__ for each in found.__mro__ if issubclass(each, TidegateError))


def _descendants(of: type[TidegateError]) -> Iterator[type[TidegateError]]:
    for each in of.__subclasses__():
        yield each
        yield from _descendants(each)


def location(
    *,
    subscription: str | None = None,
    group: str | None = None,
    batch: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
) -> str:
    """Where something happened, as every error says it: `subscription flights, group g, topic t, ...`."""
    named = {
        "subscription": subscription,
        "group": group,
        "batch": batch,
        "topic": topic,
        "partition": partition,
        "offset": offset,
    }
    return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)


def not_for_this_user(error: PermissionError) -> str:
    """What to say of a file or a folder that this process's user may not use."""
    who = "run as the user that Airflow's tasks run as, or let this one use it"
    return f"{error.filename or error} is not for this user ({error.strerror}): {who}"


def message(fact: object, at: object = "", remedy: str = "") -> str:
    """What every error and log line says: the fact, where it holds, unless it says so itself, and what to do.

    `no broker answers (subscription flights, group g); look at its host`. Place and remedy follow the fact's first
    line, so that nobody has to look for them behind a stack trace.
    """
    first, newline, rest = str(fact).partition("\n")
    if str(at) or remedy:
        first = first.rstrip("; ")
    where = f" ({at})" if str(at) and str(at) not in first else ""
    return f"{first}{where}{f'; {remedy}' if remedy else ''}{newline}{rest}"


def advised(fact: str, at: object, advice: str) -> str:
    """As `message`, with the advice on a line of its own: the first line alone goes along with each dead letter."""
    return f"{message(fact, at)}\n  {advice}"


def first_few(said: Sequence[object]) -> str:
    """As many of these as leave room for place and remedy on a screen, one at least; the others are counted.

    `a; b; and 7 more`. All of them follow on lines of their own where any was left out.
    """
    texts = [str(each) for each in said]
    shown = max(1, sum(length <= _ROOM for length in accumulate(map(len, texts))))
    if shown >= len(texts):
        return "; ".join(texts)
    return "\n  ".join(["; ".join([*texts[:shown], f"and {len(texts) - shown} more"]), *texts])
