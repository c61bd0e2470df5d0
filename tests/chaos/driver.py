"""A driver without Spark: a process of its own that copies what landed, and so can be killed or outlive its task.

`python -m chaos.driver --keeper PID [--work SECONDS] [--late SECONDS] [--reject N --again N] [--table] [--count]
[--fail] MANIFEST_URI`. It imports little, so that it starts quickly, and ends by itself once the process that keeps
chaos is gone.
"""

import argparse
import os
import sys
import time
from typing import Any

from tidegate.testing.copying import CopyingProcessor

_LOOK_SECONDS = 0.1
_CLIENT_FAILED = 1
_RECORDS_FAILED = 'tidegate-failure: {"cause": "records", "error": "chaos wants it so", "where": ""}\n'


def main() -> int:
    """Copy; with `--late`, fail at once while a process that nobody knows of copies after that many seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keeper", type=int, required=True)
    parser.add_argument("--work", type=float, default=0.0)
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--reject", type=int, default=0, metavar="N", help="reject each number that N divides")
    parser.add_argument("--again", type=int, default=0, metavar="N", help="of retried ones, those that N divides")
    parser.add_argument("--table", action="store_true", help="write the rows of a table, where the manifest says so")
    parser.add_argument("--count", action="store_true", help="count the records in the transform's state")
    parser.add_argument("manifest")
    parser.add_argument("--fail", action="store_true", help="say that the records failed the job")
    chosen = parser.parse_args()
    if chosen.late and os.fork():
        return _CLIENT_FAILED
    if chosen.late:
        _let_go()
        _wait(chosen.late, chosen.keeper)
    _wait(chosen.work / 2, chosen.keeper)
    if chosen.fail:
        sys.stdout.write(_RECORDS_FAILED)
        return _CLIENT_FAILED
    job = _job(chosen.reject, chosen.again, is_table=chosen.table)
    if chosen.count:
        job.fold = _counted
    job.run(chosen.manifest, 0, lambda _: None, lambda: None)
    _wait(chosen.work / 2, chosen.keeper)
    return 0


def _counted(manifest: dict[str, Any]) -> dict[str, int]:
    """How many records the transform has seen up to this batch's end."""
    before = manifest.get("state") or {"seen": 0}
    return {"seen": before["seen"] + manifest["records"]}


def _job(divisor: int, again: int, *, is_table: bool) -> CopyingProcessor:
    if not divisor and not is_table:
        return CopyingProcessor()
    from chaos.rejecting import RejectingProcessor  # noqa: PLC0415 (Arrow takes its time, if wanted)
    from chaos.table_rows import TableRowsProcessor  # noqa: PLC0415

    if not divisor:
        return TableRowsProcessor()
    return RejectingProcessor(divisor, again or divisor)


def _let_go() -> None:
    """Leave the session and the output of the client that started this process."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)


def _wait(seconds: float, keeper: int) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            os.kill(keeper, 0)
        except ProcessLookupError:
            sys.exit(_CLIENT_FAILED)
        time.sleep(min(left, _LOOK_SECONDS))


if __name__ == "__main__":
    sys.exit(main())
