"""How long it takes, and how much memory, to settle acknowledgements in any order with the records that landed.

`python benchmarks/acks.py [--records N] [--partitions P]`. Every landed record is acknowledged once, in random order;
a fresh process settles them, and its seconds and peak memory are printed as JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cost import report
from tidegate.model.offsets import Range, TopicPartition
from tidegate.parquet.acks import COLUMNS, pending_acks, take

TOPIC = "orders"
_FILES = 8
_STEP = 3  # offsets are up to this far apart: a compacted topic


def main() -> None:
    """Write landed files and acknowledgements, and have a process of its own settle them."""
    parser = argparse.ArgumentParser(description="Measure how acknowledgements are settled.")
    parser.add_argument("--records", type=int, default=10_000_000, help="landed records (default 10,000,000)")
    parser.add_argument("--partitions", type=int, default=4, help="partitions that they are of (default 4)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = _written(Path(folder), arguments.records, arguments.partitions)
        command = [sys.executable, str(Path(__file__).resolve()), json.dumps(asked)]
        subprocess.run(command, check=True, timeout=600)


def settle(landed: list[str], acks: list[str], records: list[int]) -> None:
    """Settle the files; `records` has the number of landed records by partition."""
    counts = {TopicPartition(TOPIC, number): count for number, count in enumerate(records)}
    whole = {at: Range(*at, 0, sum(records) * _STEP) for at in counts}
    waiting = pending_acks(landed, counts, whole.values())
    for uri in acks:  # as a job that runs is looked at: after each file, how far a commit may go
        take(uri, waiting)
        for at, one in waiting.items():
            one.now().prefix(whole[at])
    settled = {at: one.now() for at, one in waiting.items()}
    if sum(one.backlog(whole[at]) for at, one in settled.items()):
        raise RuntimeError("records that were acknowledged are waited for")
    if not all(one.prefix(whole[at]) == one.latest(whole[at]) == whole[at].end for at, one in settled.items()):
        raise RuntimeError("what was acknowledged to its end isn't behind its end")


def _written(folder: Path, records: int, partitions: int) -> dict[str, Any]:
    random = np.random.default_rng(20_260_101)
    partition = np.sort(random.integers(0, partitions, records).astype(np.int32))
    offset = np.cumsum(random.integers(1, _STEP + 1, records))
    counts = np.bincount(partition, minlength=partitions).tolist()
    for number, first in enumerate(np.cumsum([0, *counts[:-1]])):
        offset[first : first + counts[number]] -= offset[first] if counts[number] else 0
    order = random.permutation(records)
    return {
        "landed": _files(folder, "landed", partition, offset),
        "acks": _files(folder, "acks", partition[order], offset[order]),
        "records": counts,
    }


def _files(folder: Path, name: str, partition: Any, offset: Any) -> list[str]:
    uris = []
    for number, places in enumerate(np.array_split(np.arange(len(offset)), _FILES)):
        columns = [pa.array([TOPIC] * len(places)), pa.array(partition[places]), pa.array(offset[places])]
        path = folder / f"{name}-{number}.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=COLUMNS), path)
        uris.append(path.as_uri())
    return uris


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        report(settle)
    else:
        main()
