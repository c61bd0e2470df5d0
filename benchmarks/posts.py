"""How many requests a second of a CPU makes: Tidegate's delivery over HTTP, and loops that people write by hand.

`python benchmarks/posts.py [--records N] [--bytes N] [--concurrency N ...] [--write]`, after `make contenders`. All
send the same landed records, with the same headers, to the same server, one after the other; each is a process of its
own, whose CPU seconds count from its first request to its last. Tidegate also sorts the records, notes each answer on
the disk, and writes its result; the loops do none of that.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from page import Table, show, write
from tidegate.http.allowed import AllowedAddresses
from tidegate.http.processor import HttpProcessor
from tidegate.model.subscription import HttpEndpoint
from tidegate.testing.connections import MemoryConnections

CONTENDERS = Path(__file__).resolve().parents[1] / ".cache" / "contenders" / "bin" / "python"
LOOPS = Path(__file__).resolve().parent / "contenders" / "posts.py"
PARTITIONS = 4
_CLIENTS = {"tidegate": "Tidegate", "aiohttp": "an aiohttp loop", "httpx": "an httpx loop"}
_BATCH = "b" + "0" * 20


def main() -> None:
    """Measure all, in turn, and print what each came to and the ratios."""
    parser = argparse.ArgumentParser(description="Measure requests over HTTP for each second of a CPU.")
    parser.add_argument("--records", type=int, default=200_000, help="records to send (default 200,000)")
    parser.add_argument("--bytes", type=int, default=110, help="bytes of each (default 110, the reference's)")
    parser.add_argument(
        "--concurrency", type=int, nargs="*", default=[500, 64], help="requests under way (default 500 64)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default 3)")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    asked = parser.parse_args()
    tables = {each: _table(_medians(asked, each), each, asked.bytes) for each in asked.concurrency}
    show([*tables.values()])
    if asked.write:
        command = f"python benchmarks/posts.py --records {asked.records} --rounds {asked.rounds}"
        write("delivery over HTTP", command, [_summary(tables, asked.bytes)])


def _medians(asked: argparse.Namespace, concurrency: int) -> dict[str, dict[str, float]]:
    """What each client came to."""
    with tempfile.TemporaryDirectory() as folder:
        landed = _landed(Path(folder), asked.records, asked.bytes)
        context = multiprocessing.get_context("spawn")
        port = _free_port()
        server = context.Process(target=serve, args=(port,), daemon=True)
        server.start()
        _wait_for(port)
        found: dict[str, list[dict[str, float]]] = {}
        for _ in range(asked.rounds):
            for name in ("tidegate", "aiohttp", "httpx"):
                few = asked.records if name != "httpx" else max(1_000, asked.records // 20)
                found.setdefault(name, []).append(_measured(name, port, landed, records=few, concurrency=concurrency))
        server.terminate()
    return {name: {key: statistics.median(one[key] for one in each) for key in each[0]} for name, each in found.items()}


def _table(median: dict[str, dict[str, float]], concurrency: int, size: int) -> Table:
    ours = median["tidegate"]["per_cpu_second"]
    rows = [
        [
            _CLIENTS[name],
            f"{each['per_second']:,.0f}",
            f"{each['per_cpu_second']:,.0f}",
            f"{ours / each['per_cpu_second']:.1f}" if name != "tidegate" else "",
            f"{each['peak_mib']:.0f}",
        ]
        for name, each in median.items()
    ]
    headings = ["client", "requests a second", "per CPU second", "Tidegate makes times as many", "MiB"]
    return Table(f"{concurrency} requests under way, {size} bytes each", headings, rows)


def _summary(tables: Mapping[int, Table], size: int) -> Table:
    """What the page shows: each client's requests a second."""
    rows = [[name, *(table.rows[at][1] for table in tables.values())] for at, name in enumerate(_CLIENTS.values())]
    headings = ["client", *(f"{concurrency} under way" for concurrency in tables)]
    return Table(f"Requests a second, of {size} bytes", headings, rows)


def _measured(name: str, port: int, landed: Path, *, records: int, concurrency: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--deliver"] if name == "tidegate" else [str(CONTENDERS), str(LOOPS), name]
    work = landed.parent / uuid.uuid4().hex
    arguments = [str(port), str(landed), str(records), str(concurrency), str(work)]
    done = subprocess.run([*command, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return said


def deliver(port: int, landed: Path, records: int, concurrency: int, work: Path) -> None:
    """Tidegate's own delivery, as a run has it."""
    staging = work / "_staging" / f"{_BATCH}-{'0' * 32}"
    staging.mkdir(parents=True)
    manifest = work / "manifest.json"
    ranges = [{"topic": "orders", "partition": p, "start": 0, "end": records} for p in range(PARTITIONS)]
    document = {
        "batch_id": _BATCH,
        "delivery": {"token": "0" * 32},
        "records": records,
        "ranges": ranges,
        "files": [{"uri": f"file://{landed}"}],
        "output": f"file://{work}",
        "staging": f"file://{staging}",
        "progress": "whole-batch",
    }
    manifest.write_text(json.dumps(document))
    endpoint = HttpEndpoint(f"http://127.0.0.1:{port}/hook", concurrency=max(1, concurrency // PARTITIONS))
    processor = HttpProcessor(
        endpoint,
        MemoryConnections(),
        AllowedAddresses.parse("127.0.0.1"),
        broker="kafka_default",
        consumer="a_b",
        output=work,
    )
    began, cpu = time.perf_counter(), time.process_time()
    processor.run(f"file://{manifest}", None, lambda _: None, lambda: None)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"per_second": records / seconds, "per_cpu_second": records / cpu, "peak_mib": peak}))


class _Answering(asyncio.Protocol):
    """Takes requests that have a length, and answers each with an empty 200."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._left = b""

    def data_received(self, data: bytes) -> None:
        data = self._left + data
        answers = 0
        while (end := data.find(b"\r\n\r\n")) >= 0:
            at = data[:end].lower().find(b"content-length: ")
            length = int(data[at + 16 : data.find(b"\r", at)]) if at >= 0 else 0
            if len(data) < end + 4 + length:
                break
            data = data[end + 4 + length :]
            answers += 1
        self._left = data
        if answers:
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * answers)  # type: ignore[attr-defined]


def serve(port: int) -> None:
    """Answer requests until the process ends."""

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", port, backlog=4096)
        await server.serve_forever()

    asyncio.run(forever())


def _landed(folder: Path, records: int, size: int) -> Path:
    file = folder / "landed.parquet"
    count = range(records)
    table = pa.table(
        {
            "key": pa.array([b"k%d" % n for n in count], pa.binary()),
            "value": pa.array([b"x" * size] * records, pa.binary()),
            "topic": pa.array(["orders"] * records),
            "partition": pa.array([n % PARTITIONS for n in count], pa.int32()),
            "offset": pa.array([n // PARTITIONS for n in count], pa.int64()),
            "timestamp": pa.array([0] * records, pa.timestamp("ms", "UTC")),
            "timestampType": pa.array([0] * records, pa.int32()),
            "headers": pa.array([None] * records, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )
    pq.write_table(table, file, compression="lz4")
    return file


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)  # between two looks
    raise TimeoutError("the server doesn't come up")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--deliver"]:
        deliver(int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), Path(sys.argv[6]))
    else:
        main()
