"""A job without Spark that rejects some of the numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.table_rows import TableRowsProcessor

_REASON = "it is a multiple"
_RETRY = "_retry_"


class RejectingProcessor(TableRowsProcessor):
    """Copies, and then takes each number that `divisor` divides away; nobody looks before it has ended well.

    Of records that come from a retry topic, those that `again` divides.
    """

    def __init__(self, divisor: int, again: int) -> None:
        super().__init__()
        self._divisor = divisor
        self._again = again

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """See `tidegate.ports.Processor`."""
        super().run(manifest_uri, timeout, said, watch)
        manifest = json.loads(_path(manifest_uri).read_text(encoding="utf-8"))
        for attempt in _path(manifest["staging"]).iterdir():
            self._reject(attempt)

    def _reject(self, attempt: Path) -> None:
        told = attempt / "_result" / "part-00000.txt"
        result = json.loads(told.read_text(encoding="utf-8"))
        for file in result["files"]:
            path = attempt / file["path"]
            table = pq.read_table(path)
            numbers = pc.cast(pc.cast(table["value"], "string"), "int64")
            is_retried = pc.match_substring(pc.cast(table["topic"], "string"), _RETRY)
            is_bad = pc.if_else(is_retried, _divides(self._again, numbers), _divides(self._divisor, numbers))
            bad = table.filter(is_bad)
            if not bad.num_rows:
                continue
            pq.write_table(table.filter(pc.invert(is_bad)), path)
            file["bytes"] = path.stat().st_size
            rejected = attempt / "_rejected" / path.name
            rejected.parent.mkdir(exist_ok=True)
            pq.write_table(bad.append_column("reason", pa.array([_REASON] * bad.num_rows)), rejected)
            result["rejected_files"].append({"path": f"_rejected/{path.name}", "bytes": rejected.stat().st_size})
        told.write_text(json.dumps(result) + "\n", encoding="utf-8")


def _divides(divisor: int, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.equal(pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor)), 0)


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))
