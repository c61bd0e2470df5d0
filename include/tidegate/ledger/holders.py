"""What the ledger knows of groups and batches beyond the definitions; its libraries are imported when it is asked."""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError, UnusableLedgerError, not_for_this_user

if TYPE_CHECKING:
    from tidegate.ledger.sql import SqlLedger

log = logging.getLogger(__name__)

_Told = TypeVar("_Told")
_FILE = re.compile(r"sqlite(?:\+\w+)?:///(?!file:)")  # `file:` begins a URI of SQLite's, with options


@dataclass(frozen=True)
class LedgerHolders:
    """The holders that the ledger at this URL knows, for `tidegate check`; none where it can't be asked.

    A ledger that nobody has made yet isn't made for it.
    """

    url: str

    def of_group(self, group: str) -> Collection[str]:
        """See `tidegate.config.holders.Holders`."""
        return self._told(lambda ledger: ledger.group_holders(group), frozenset())

    def outputs(self, names: Collection[str]) -> Mapping[str, str]:
        """See `tidegate.config.holders.Holders`."""
        return self._told(lambda ledger: ledger.newest_outputs(names), {})

    def _told(self, ask: "Callable[[SqlLedger], _Told]", unknown: _Told) -> _Told:
        try:
            return unknown if self._ledger is None else ask(self._ledger)
        except TidegateError as error:
            log.warning("the ledger can't tell who has which group and which output: %s", error)
            return unknown

    @cached_property
    def _ledger(self) -> "SqlLedger | None":
        from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - SQLAlchemy takes its time

        return SqlLedger(self.url) if has_tables(self.url) else None


def is_made(url: str) -> bool:
    """Whether there may be a ledger at this URL: only of a file is it known that there is none.

    Raises UnusableLedgerError where this user may not see it.
    """
    file = _FILE.match(url)
    try:
        return file is None or Path(url[file.end() :].partition("?")[0]).exists()
    except PermissionError as error:
        raise UnusableLedgerError(not_for_this_user(error)) from error


def has_tables(url: str) -> bool:
    """Whether there is a ledger at this URL, in a database of its own or among other tables; none is made.

    Raises UnavailableError, UnusableLedgerError.
    """
    from tidegate.ledger.database import Database  # noqa: PLC0415 - see above
    from tidegate.ledger.migrate import schema_of  # noqa: PLC0415 - see above

    return is_made(url) and schema_of(Database(url)) is not None


def require_writable(url: str) -> None:
    """Raise what keeps a run from writing into the ledger at this URL; one that nobody has made yet isn't made.

    Raises UnavailableError, UnusableLedgerError.
    """
    from tidegate.ledger.database import Database  # noqa: PLC0415 - see above
    from tidegate.ledger.migrate import migrate  # noqa: PLC0415 - see above
    from tidegate.ledger.tables import ledger  # noqa: PLC0415 - see above

    if not has_tables(url):
        return
    database = Database(url)
    migrate(database)
    with database.write() as connection:
        connection.execute(ledger.update().values(identity=ledger.c.identity))
        connection.rollback()


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
