"""What publishing into a Delta table costs, by the number of commits that its log has.

A history isn't committed, which would take minutes, but written into the log: a file in each commit, and a checkpoint
fifty commits ago, which is the middle between two.
"""

import json
import random
from functools import partial
from pathlib import Path

from deltalake import DeltaTable

from publishing import Cost, append, cost, staged
from tidegate.lake.delta.log import DeltaLog

SINCE_CHECKPOINT = 50


def measure(folder: Path, commits: int) -> Cost:
    """What loading and appending take in a table with so many commits, and as many files."""
    log, table, stage = DeltaLog(lambda _: {}), f"delta+file://{folder}", partial(staged, folder / "data")
    log.create(table, stage(1), ())
    append(log, table, stage(1))
    lengthen(folder, commits)
    return cost(log, table, stage)


def lengthen(folder: Path, commits: int) -> None:
    """Add commits to the log until there are so many, each like its last."""
    first = DeltaTable(folder).version()
    actions = [json.loads(line) for line in commit(folder, first).read_text("utf-8").splitlines()]
    checkpoint = commits - SINCE_CHECKPOINT
    for version in range(first + 1, commits):
        for action in actions:
            if "add" in action:
                action["add"]["path"] = f"data/{random.getrandbits(63)}.parquet"
        commit(folder, version).write_text("\n".join(map(json.dumps, actions)), "utf-8")
        if version == checkpoint:
            DeltaTable(folder).create_checkpoint()


def commit(folder: Path, version: int) -> Path:
    """The file of a commit."""
    return folder / "_delta_log" / f"{version:020}.json"
