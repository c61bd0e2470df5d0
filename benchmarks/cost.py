"""What a piece of work costs: seconds, CPU seconds and peak memory of a process that does nothing else.

The programs in `contenders/` are such processes: `python -m contenders.land '{"bootstrap": ...}'` prints JSON.
CPU seconds are those of all threads; imports are left out. It imports nothing but the standard library, because
whatever is imported makes the passes of Python's garbage collector dearer.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

Work = Callable[..., None]


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, seconds of processors, and the most memory held at once, in MiB."""

    seconds: float
    cpu: float
    peak_mib: float


def report(work: Work) -> None:
    """Do the work with the settings that the command line gives as JSON, and print its cost."""
    settings = json.loads(sys.argv[1])
    before = _cpu(resource.RUSAGE_SELF)
    began = time.perf_counter()
    work(**settings)
    seconds = time.perf_counter() - began
    say(Cost(seconds, _cpu(resource.RUSAGE_SELF) - before, peak_mib()))


def report_children(work: Work) -> None:
    """As `report`, for work that other programs do: the cost of all that it starts and waits for."""
    settings = json.loads(sys.argv[1])
    began = time.perf_counter()
    work(**settings)
    seconds = time.perf_counter() - began
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    say(Cost(seconds, _cpu(resource.RUSAGE_CHILDREN), largest))


def say(cost: Cost) -> None:
    """Print a cost as the one line that the benchmark reads."""
    print(json.dumps(asdict(cost)), flush=True)


def peak_mib(pid: int | str = "self") -> float:
    """The peak of one process alone; Linux counts the parent's memory at the fork into ru_maxrss."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return int(status.read_text("utf-8").partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak(pid: int) -> None:
    """Let the peak of a process count from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", "utf-8")


def cpu_seconds(pid: int) -> float:
    """CPU seconds of another process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _cpu(whose: int) -> float:
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime
