"""Commits one batch to a Delta table, and dies at a point of the commit as it does when memory or power run out.

`python delta_committer.py TABLE OPTIONS FILE BYTES POINT`; the point is `before` (nothing is written), `within` (a part
of the commit's file is, and the system ends the process), `after` (the commit is in the log, and nobody was told), or
`never`, for somebody else's strike.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable

from tidegate.lake.delta import log as delta_log
from tidegate.ports.table_log import DataFile, Record

INCARNATION = "i0123456789abcdef"
NUMBER = 2
_PART = 100  # bytes of a commit's file
_commit = delta_log.failure_of


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(point: str) -> Callable[[Callable[[], None]], Exception | None]:
    """The commit, and death at the point."""

    def commit(change: Callable[[], None]) -> Exception | None:
        if point == "before":
            die()
        if point == "within":
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (_PART, _PART))
        failure = _commit(change)
        if point == "after":
            die()
        return failure

    return commit


def main() -> None:
    table, options, uri, size, point = sys.argv[1:]
    log = delta_log.DeltaLog(lambda _: json.loads(options))
    snapshot = log.load(table, INCARNATION, NUMBER)
    assert snapshot is not None
    delta_log.failure_of = dying(point)
    log.append(table, INCARNATION, snapshot, Record(NUMBER, 7), [DataFile(uri, int(size), 3)])


if __name__ == "__main__":
    main()
