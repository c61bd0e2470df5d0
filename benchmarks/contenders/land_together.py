"""The land step of several members, which begin at once; each is a process that has done its imports."""

import json
import subprocess
import sys
import time
from typing import IO

from cost import Cost, say


def main() -> None:
    """Land by as many members as the settings say.

    The clock stops when the last one is done, CPU seconds are added up, and memory is the largest member's.
    """
    settings = json.loads(sys.argv[1])
    pipes = [_member(json.dumps(settings | {"member": member})) for member in range(settings["members"])]
    for _, output in pipes:
        output.readline()
    began = time.perf_counter()
    for go, _ in pipes:
        go.write("go\n")
        go.flush()
    found = [json.loads(output.readline()) for _, output in pipes]
    seconds = time.perf_counter() - began
    say(Cost(seconds, sum(one["cpu"] for one in found), max(one["peak_mib"] for one in found)))


def _member(settings: str) -> tuple[IO[str], IO[str]]:
    command = [sys.executable, "-m", "contenders.land", settings, "wait"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if started.stdin is None or started.stdout is None:
        raise RuntimeError("a member has no pipes")
    return started.stdin, started.stdout


if __name__ == "__main__":
    main()
