"""Orphans: what Spark jobs have written into a table's folder after their batch had ended, so that no table names it.

A job that nobody could stop makes the folder anew that a sweep has removed. Sweeps find folders by their notes; a whole
table is listed for its maintenance alone.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from tidegate.lake.log_entries import LogEntries
from tidegate.lake.log_lake import STAGED
from tidegate.lake.staged_files import folders
from tidegate.lake.staging import staged_batch
from tidegate.model.errors import LostDataError, UnavailableError
from tidegate.model.receipt import Receipt
from tidegate.parquet.locations import locate
from tidegate.ports import TableLog


class Orphans:
    """Those of tables with this log."""

    def __init__(self, log: TableLog) -> None:
        self._log = log

    def unnoted(self, table: str) -> Mapping[str, frozenset[str]]:
        """By batch, the URIs of folders that are named as a delivery's and aren't noted as staged; published ones too.

        They are listed before the notes: a delivery notes its folder before it makes it. Folders of later generations
        aren't among them.
        """
        data = f"{self._log.folder(table)}/data"
        listed = _below(data)
        noted = self._log.notes(table, STAGED)
        found: dict[str, set[str]] = defaultdict(set)
        for name in listed:
            if name not in noted and (batch_id := staged_batch(name)):
                found[batch_id].add(f"{data}/{name}")
        return {batch_id: frozenset(uris) for batch_id, uris in found.items()}

    def among(self, table: str, of: Receipt, unnoted: Collection[str], *, was_published: bool) -> frozenset[str]:
        """Of the folders of a closed batch, those in which the table has nothing.

        None where the log says nothing of a batch that was published, has forgotten it, or was taken back to before it.
        Folders are told by their names: the table's own may be written in another way than when it was published.
        """
        entries = LogEntries(self._log, table, of)
        try:
            entry = entries.found()
        except LostDataError:
            return frozenset()
        if entry is not None and entry.is_published:
            return frozenset(uri for uri in unnoted if _name(uri) != _name(entry.staging or ""))
        return frozenset() if was_published or entries.is_forgotten() else frozenset(unnoted)


def _below(uri: str) -> list[str]:
    system, path = locate(uri)
    try:
        return [_name(folder) for folder in folders(system, path)]
    except OSError as error:
        raise UnavailableError(f"{uri} can't be listed: {error}") from error


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
