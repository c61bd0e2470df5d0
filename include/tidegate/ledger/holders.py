"""Whose a group is, for whoever looks at definitions; the ledger's own libraries are imported only when it is asked."""

import logging
from collections.abc import Callable

from tidegate.errors import TidegateError

log = logging.getLogger(__name__)


def group_holders(url: str) -> Callable[[str], frozenset[str]]:
    """The subscriptions that read with a group, by its id; none where the ledger at this URL can't be asked."""

    def holders(group: str) -> frozenset[str]:
        from tidegate.ledger.sql import SqlLedger  # noqa: PLC0415 - SQLAlchemy takes its time

        try:
            return SqlLedger(url).group_holders(group)
        except TidegateError as error:
            log.warning("the ledger can't tell whose group %s is: %s", group, error)
            return frozenset()

    return holders
