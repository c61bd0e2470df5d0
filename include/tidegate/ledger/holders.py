"""What the ledger knows of groups and batches beyond the definitions; its libraries are imported when it is asked."""

import logging
import re
from collections.abc import Callable, Collection
from pathlib import Path

from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError

log = logging.getLogger(__name__)

_FILE = re.compile(r"sqlite(?:\+\w+)?:///")


def group_holders(url: str) -> Callable[[str], frozenset[str]]:
    """The subscriptions that read with a group, by its id; none where the ledger at this URL can't be asked.

    A ledger that nobody has made yet isn't made for it.
    """

    def holders(group: str) -> frozenset[str]:
        from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - SQLAlchemy takes its time

        if not is_made(url):
            return frozenset()
        try:
            return SqlLedger(url).group_holders(group)
        except TidegateError as error:
            log.warning("the ledger can't tell whose group %s is: %s", group, error)
            return frozenset()

    return holders


def is_made(url: str) -> bool:
    """Whether there may be a ledger at this URL: only of a file is it known that there is none."""
    file = _FILE.match(url)
    return file is None or Path(url[file.end() :].partition("?")[0]).exists()


def has_tables(url: str) -> bool:
    """Whether there is a ledger at this URL, in a database of its own or among other tables; none is made.

    Raises UnavailableError, UnusableLedgerError.
    """
    from tidegate.ledger.database import Database  # noqa: PLC0415 - see above
    from tidegate.ledger.migrate import schema_of  # noqa: PLC0415 - see above

    return is_made(url) and schema_of(Database(url)) is not None


def orphaned_batches(url: str, defined: Collection[str]) -> tuple[Batch, ...]:
    """The open batches of subscriptions that are not among those that are defined, nor replays of them.

    A ledger that nobody has made yet has none, and isn't made. Raises UnavailableError, WrongDefinitionError.
    """
    from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - see above

    if not has_tables(url):
        return ()
    ledger = SqlLedger(url)
    known = {*defined, *(replay.name for replay in ledger.replays())}
    return tuple(batch for batch in ledger.open_batches() if batch.subscription not in known)
