"""What a piece of work costs: seconds, CPU seconds and peak memory of a process that does nothing else.

`consume.py` and `land.py` are such processes: `python benchmarks/land.py '{"bootstrap": ...}'` prints JSON.
CPU seconds are those of all threads; imports are left out. It imports nothing but the standard library, because
whatever is imported makes the passes of Python's garbage collector dearer.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def report(work: Callable[..., dict[str, Any]]) -> None:
    """Do the work with the settings that the command line gives as JSON, and print what it returned and its cost."""
    settings = json.loads(sys.argv[1])
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    more = work(**settings)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "seconds": seconds,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mib": _peak_kib() / 1024,
    }
    print(json.dumps(cost | more))


def _peak_kib() -> int:
    """The peak of this process alone; Linux counts the parent's memory at the fork into ru_maxrss."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text("utf-8").partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
