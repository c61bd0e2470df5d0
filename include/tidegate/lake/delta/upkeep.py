"""The upkeep of Delta tables, by delta-rs: OPTIMIZE, VACUUM of what the log has removed, a checkpoint, log cleanup."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from tidegate.lake.delta.location import DeltaLocation, OptionsOf, delta_location, stated
from tidegate.lake.delta.protocol import refuse_unless_plain
from tidegate.lake.delta.schema import rows_of
from tidegate.lake.delta.table import is_expired, opened
from tidegate.model.errors import WrongDefinitionError, message
from tidegate.ports.table_upkeep import Upkeep

_TARGET_BYTES: Final = 100 * 1024 * 1024  # delta-rs's own, where delta.targetFileSize isn't set
_COMMIT: Final = re.compile(r"\d{20}\.json")
_Result = TypeVar("_Result")


class DeltaUpkeep:
    """The port `TableUpkeep` for Delta tables.

    VACUUM is lite: it removes what the log has removed and its retention has ended for. A full one, by delta-rs, also
    removes what lies in a batch's folder without being rows, which are its rejected records.
    """

    def __init__(self, options_of: OptionsOf) -> None:
        self._options_of = options_of

    def maintain(self, table: str, *, dry_run: bool) -> Upkeep | None:
        """See `tidegate.ports.TableUpkeep`. A dry run counts the files that are smaller than the target."""
        location = delta_location(table, self._options_of)
        found = opened(location)
        if found is None:
            return None
        _refuse(found, location)
        with stated(location.uri):
            if dry_run:
                return Upkeep(compacted=_small_files(found), removed=len(_unless_lost(found.vacuum) or ()))
            steps = (_compact, _vacuum, _forget)
            done = [_unless_lost(partial(step, location)) for step in steps]
        return Upkeep(**{name: count for each in done if each for name, count in each.items()}, yielded=None in done)


def _refuse(table: DeltaTable, location: DeltaLocation) -> None:
    refuse_unless_plain(table, rows_of(table), location.uri)
    if "deletionVectors" in (table.protocol().writer_features or ()):
        raise WrongDefinitionError(
            message("delta-rs can't rewrite a table with deletionVectors", location.uri, "let Spark run OPTIMIZE on it")
        )


def _compact(location: DeltaLocation) -> dict[str, int]:
    metrics = _opened(location).optimize.compact()
    return {"compacted": metrics["numFilesRemoved"], "written": metrics["numFilesAdded"]}


def _vacuum(location: DeltaLocation) -> dict[str, int]:
    """Without anything to remove there is no commit either."""
    table = _opened(location)
    return {"removed": len(table.vacuum(dry_run=False)) if table.vacuum(dry_run=True) else 0}


def _forget(location: DeltaLocation) -> dict[str, int]:
    """Remove expired commits from the log, and write a checkpoint.

    In this order, so that the checkpoint which somebody is about to read isn't the one that has just become needless.
    """
    before = _commits(location)
    table = _opened(location)
    table.cleanup_metadata()
    table.create_checkpoint()
    return {"expired": len(before - _commits(location))}


def _unless_lost(step: Callable[[], _Result]) -> _Result | None:
    """What a step returns; None where others committed before it again and again, or removed what it was reading."""
    try:
        return step()
    except (DeltaError, OSError) as error:
        if isinstance(error, CommitFailedError) or is_expired(error):
            return None
        raise


def _opened(location: DeltaLocation) -> DeltaTable:
    table = opened(location)
    if table is None:
        raise WrongDefinitionError(message("the table was dropped while it was maintained", location.uri, "run again"))
    return table


def _small_files(table: DeltaTable) -> int:
    target = int(table.metadata().configuration.get("delta.targetFileSize", _TARGET_BYTES))
    small: Counter[tuple[object, ...]] = Counter()
    for file in table.get_add_actions(flatten=True).to_struct_array().to_pylist():
        if file["size_bytes"] < target:
            small[tuple(value for name, value in file.items() if name.startswith("partition."))] += 1
    return sum(count for count in small.values() if count > 1)


def _commits(location: DeltaLocation) -> set[str]:
    return {name for name in location.names("_delta_log") if _COMMIT.fullmatch(name)}
