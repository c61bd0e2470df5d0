"""The audit of webhooks, by logs as the receiver writes them: clean ones, and doctored ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chaos.audit import Verdict, record, records
from chaos.receipts import Receipts, Sent, audit_receipts
from chaos.receiver import Received, read_received

STARTED = ",-1,-1,-1"
RECORDS = 20  # of each of two partitions; number 2 n + p is at offset 3 n of partition p
NOTHING = np.array([], np.int64)


def line(partition: int, n: int, path: str = "numbers") -> str:
    return f"{path},{partition},{3 * n},{2 * n + partition}"


def lines(*numbers: int, partition: int = 0) -> list[str]:
    return [line(partition, n) for n in numbers]


ORDERLY = [STARTED, *(line(partition, n) for n in range(RECORDS) for partition in (0, 1))]


def read(folder: Path, said: list[str]) -> Received:
    file = folder / "received.csv"
    file.write_text("\n".join(said) + "\n", encoding="utf-8")
    return read_received(file, "numbers")


def found(folder: Path, said: list[str], deliveries: int = 1, at_once: int = 1, more: int = 0) -> Receipts:
    numbers = np.arange(2 * RECORDS + more)
    return Receipts(
        acknowledged=records(numbers, numbers % 2),
        uncertain=records([900], [0]),
        received=read(folder, said),
        batches=[
            Sent("b1", {0: (0, 30), 1: (0, 30)}, deliveries),
            Sent("b2", {0: (30, 60), 1: (30, 60)}, 1),
        ],
        at_once=at_once,
    )


def test_what_came_once_and_in_order_is_clean(tmp_path: Path) -> None:
    verdict = audit_receipts(found(tmp_path, ORDERLY))
    assert verdict == Verdict(0, 0, 0, 0, 0, 0)
    assert verdict.is_clean


def test_each_line_is_of_one_path_and_a_start_stands_between_requests(tmp_path: Path) -> None:
    said = [STARTED, line(0, 0), line(1, 7, "another"), STARTED, STARTED, line(1, 0), STARTED]
    received = read(tmp_path, said)
    assert (received.partitions.tolist(), received.offsets.tolist()) == ([0, 1], [0, 0])
    assert received.records.tolist() == [record(0, 0), record(1, 1)]
    assert received.restarts.tolist() == [1, 1, 2]
    assert received.of(np.array([1, 1]), np.array([0, 21])).tolist() == [record(1, 1), record(-1, 1)]


AGAIN: list[tuple[str, list[str], int, int]] = [
    ("a task was killed", [STARTED, *lines(*range(5), *range(4, 20)), *lines(*range(20), partition=1)], 2, 1),
    (
        "the receiver was killed",
        [STARTED, *lines(*range(5)), STARTED, *lines(*range(4, 20)), *lines(*range(20), partition=1)],
        1,
        1,
    ),
    ("eight were under way", [*ORDERLY[:12], *ORDERLY[5:12], *ORDERLY[12:]], 2, 4),
    ("an uncertain record", [*ORDERLY, "numbers,0,66,900"], 1, 1),
]


@pytest.mark.parametrize(("said", "deliveries", "at_once"), [each[1:] for each in AGAIN], ids=[e[0] for e in AGAIN])
def test_what_was_under_way_may_come_again(tmp_path: Path, said: list[str], deliveries: int, at_once: int) -> None:
    verdict = audit_receipts(found(tmp_path, said, deliveries, at_once))
    assert verdict.is_clean, verdict
    assert (verdict.repeats > 0) == ("900" not in said[-1])


WRONG: list[tuple[str, Callable[[Path], Receipts], dict[str, int], str]] = [
    ("lost", lambda at: found(at, ORDERLY, more=1), {"losses": 1}, "never received: number 40 of partition 0"),
    ("skipped", lambda at: found(at, ORDERLY[:9] + ORDERLY[10:]), {"losses": 1}, "never received: number 8"),
    (
        "of an aborted transaction",
        lambda at: found(at, [*ORDERLY, "numbers,1,66,77"]),
        {"strangers": 1},
        "received, though it doesn't count: number 77 of partition 1",
    ),
    (
        "under two keys",
        lambda at: found(at, [*ORDERLY, "numbers,1,66,39"]),
        {"strangers": 1, "repeats": 1},
        "received under several keys: number 39 of partition 1",
    ),
    (
        "twice without any reason",
        lambda at: found(at, [*ORDERLY[:5], ORDERLY[4], *ORDERLY[5:]]),
        {"duplicates": 1, "repeats": 1},
        "batch b1, partition 1: 1 requests came again in 0 interruptions, 1 under way at once",
    ),
    (
        "a redelivery that sends all again",
        lambda at: found(at, [STARTED, *ORDERLY[1:15], *ORDERLY[1:]], deliveries=2, at_once=4),
        {"duplicates": 2 * (7 - 4), "repeats": 14},
        "batch b1, partition 0: 7 requests came again in 1 interruptions, 4 under way at once",
    ),
    (
        "the receiver was killed behind the batch alone",
        lambda at: found(at, [*ORDERLY[:15], *ORDERLY[11:15], *ORDERLY[15:21], STARTED, *ORDERLY[21:]]),
        {"duplicates": 4, "disorder": 2, "repeats": 4},
        "batch b1, partition 0: 2 requests came again in 0 interruptions",
    ),
    (
        "out of order",
        lambda at: found(at, [STARTED, *lines(0, 2, 1, *range(3, 20)), *lines(*range(20), partition=1)]),
        {"disorder": 1},
        "out of order: offset 3 of partition 0 came after 6",
    ),
]


@pytest.mark.parametrize(("doctored", "numbers", "example"), [each[1:] for each in WRONG], ids=[e[0] for e in WRONG])
def test_what_was_planted_in_the_log_is_found(
    tmp_path: Path, doctored: Callable[[Path], Receipts], numbers: dict[str, int], example: str
) -> None:
    verdict = audit_receipts(doctored(tmp_path))
    assert not verdict.is_clean
    clean = dict.fromkeys(("losses", "duplicates", "strangers", "disorder", "repeats"), 0)
    assert {name: getattr(verdict, name) for name in clean} == clean | numbers
    assert verdict.examples[0].startswith(example)


def test_with_several_under_way_at_once_any_order_is_fine(tmp_path: Path) -> None:
    said = [STARTED, *lines(0, 2, 1, *range(3, 20)), *lines(*range(20), partition=1)]
    assert audit_receipts(found(tmp_path, said, at_once=2)).is_clean


def test_where_nothing_was_received_all_is_lost(tmp_path: Path) -> None:
    verdict = audit_receipts(found(tmp_path, [STARTED]))
    assert verdict.losses == 2 * RECORDS
