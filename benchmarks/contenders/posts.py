"""The loops that people write by hand: `posts.py aiohttp|httpx PORT LANDED RECORDS CONCURRENCY`."""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pyarrow.parquet as pq

Post = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


def headers(record: dict[str, Any]) -> dict[str, str]:
    """The headers that Tidegate sends, too."""
    topic, partition, offset = record["topic"], str(record["partition"]), str(record["offset"])
    return {
        "Content-Type": "application/octet-stream",
        "QOH-Broker": "kafka_default",
        "QOH-Consumer": "a_b",
        "QOH-Topic": topic,
        "QOH-Partition": partition,
        "QOH-Message-Key": record["key"].decode(),
        "QOH-Message-Number": offset,
        "User-Agent": "Queue-Over-Http",
        "Idempotency-Key": f"{topic}-{partition}-{offset}",
    }


def records(landed: str, most: int) -> Iterator[dict[str, Any]]:
    """The records, some at a time."""
    sent = 0
    for batch in pq.ParquetFile(landed).iter_batches(1024, columns=["topic", "partition", "offset", "key", "value"]):
        for record in batch.to_pylist():
            if sent == most:
                return
            sent += 1
            yield record


async def _all(landed: str, most: int, concurrency: int, post: Post) -> None:
    waiting = records(landed, most)

    async def work() -> None:
        for record in waiting:
            await post(record)

    await asyncio.gather(*(work() for _ in range(concurrency)))


async def _by_aiohttp(uri: str, landed: str, most: int, concurrency: int) -> None:
    import aiohttp  # noqa: PLC0415 (one of the two is measured)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:

        async def post(record: dict[str, Any]) -> None:
            async with session.post(uri, data=record["value"], headers=headers(record)) as answer:
                await answer.read()
                answer.raise_for_status()

        await _all(landed, most, concurrency, post)


async def _by_httpx(uri: str, landed: str, most: int, concurrency: int) -> None:
    import httpx  # noqa: PLC0415 (one of the two is measured)

    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=120) as session:

        async def post(record: dict[str, Any]) -> None:
            (await session.post(uri, content=record["value"], headers=headers(record))).raise_for_status()

        await _all(landed, most, concurrency, post)


def main(name: str, port: str, landed: str, most: int, concurrency: int) -> None:
    """Send them all, and print what it took."""
    uri = f"http://127.0.0.1:{port}/hook"
    send = {"aiohttp": _by_aiohttp, "httpx": _by_httpx}[name]
    __import__(name)
    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(send(uri, landed, most, concurrency))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"per_second": most / seconds, "per_cpu_second": most / cpu, "peak_mib": peak}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
