"""The upkeep of tables, while others write to them."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to a table, or would be.

    `compacted` small files became `written` larger ones. `expired` are snapshots or versions that nobody can go back to
    any more, `removed` the files that went with them. `yielded`: others committed all the time, and the rest is left.
    """

    compacted: int = 0
    written: int = 0
    expired: int = 0
    removed: int = 0
    yielded: bool = False


class TableUpkeep(Protocol):
    """Upkeep for tables of one format; what a table is, what readers of it find, and its record stay as they are."""

    def maintain(self, table: str, *, dry_run: bool) -> Upkeep | None:
        """Maintain a table by its own properties of retention; None where there is none.

        No commit of anybody else fails because of it. Nothing is removed that the table names, that is staged, or that
        lies with a batch beside its rows. Killed, it is just done in part. With `dry_run` nothing is written. Raises as
        `TableLog` does, and WrongDefinitionError, by name, for a feature that this can't maintain.
        """
        ...
