"""What a Spark job prints: its lines, and in the last one of them why it failed."""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping

from tidegate.model.errors import BatchFailedError, RecordsFailedError, UnavailableError

_MARK = "tidegate-failure: "  # as tidegate_spark.job_failure writes it
_TAIL = 25  # lines of a failed job that its error repeats, if the job doesn't say why it failed
_LONGEST = 500  # characters of the last one that stand in the first line; of a stack trace that is its exception
_FRAME = re.compile(r"\s*(at \S+\(.*\)|\.\.\. \d+ more)\s*$")
_CAUSES: Mapping[str, type[BatchFailedError | UnavailableError]] = {
    "records": RecordsFailedError,
    "unreachable": UnavailableError,
}


class JobOutput:
    """Passes on each line of a job; `failure` is its error, by what the job said of it, else by its last lines."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._last = "it printed nothing"
        self._said: BatchFailedError | UnavailableError | None = None

    def line(self, line: str) -> None:
        """Take one line."""
        _, mark, document = line.partition(_MARK)
        self._said = (_failure(document) if mark else None) or self._said
        if not mark:
            self._tail.append(line)
            if line.strip() and not _FRAME.match(line):
                self._last = line.strip()
            self._on_line(line)

    def failure(self, how: str) -> BatchFailedError | UnavailableError:
        """The error of a job that ended so."""
        lines = "\n".join(["\nits last lines:", *self._tail]) if self._tail else ""
        return self._said or BatchFailedError(f"the Spark job {how}: {self._last[:_LONGEST]}{lines}")


def _failure(document: str) -> BatchFailedError | UnavailableError | None:
    """What the job said; None for what isn't it."""
    try:
        said = json.loads(document)
        error, where, cause = said["error"], said["where"], _CAUSES.get(said["cause"], BatchFailedError)
    except (ValueError, KeyError, TypeError):
        return None
    return cause(f"the Spark job failed: {error}" + (f"\n  at {where}" if where else ""))
