"""Orphans: what Spark jobs have written into a table's folder after their batch had ended, so that no table names it.

A job that nobody could stop makes the folder anew that a sweep has removed. Sweeps find folders by their notes; a whole
table is listed for its maintenance alone.
"""

from collections.abc import Collection, Mapping

from tidegate.lake.log_entries import LogEntries
from tidegate.lake.log_lake import STAGED, data_folder
from tidegate.lake.staged_files import folders
from tidegate.lake.staging import folder_name, staged_below
from tidegate.model.errors import LostDataError
from tidegate.model.receipt import Receipt
from tidegate.parquet.locations import locate, unless_refused
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
        data = data_folder(self._log, table)
        listed = _below(data)
        return staged_below(data, {*listed} - {*self._log.notes(table, STAGED)})

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
            return frozenset(uri for uri in unnoted if folder_name(uri) != folder_name(entry.staging or ""))
        return frozenset() if was_published or entries.is_forgotten() else frozenset(unnoted)


def _below(uri: str) -> list[str]:
    system, path = locate(uri)
    with unless_refused(f"{uri} can't be listed"):
        return [folder_name(folder) for folder in folders(system, path)]
