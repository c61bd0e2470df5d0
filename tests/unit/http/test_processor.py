"""A delivery over HTTP: every record once, and after any end of it only what was in flight twice."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from certificates import Authority
from hooks import Hook, hooked, say, tls_of
from landed import Batch, Record

from tidegate.http.allowed import AllowedAddresses
from tidegate.http.only_sender import only_sender, refuse_second
from tidegate.http.processor import HttpProcessor
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.errors import (
    DeliveryTimeoutError,
    StaleError,
    UnauthorizedError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.subscription import HttpEndpoint
from tidegate.ports import Connection
from tidegate.testing.connections import MemoryConnections

pytestmark = pytest.mark.long

LOOPBACK = AllowedAddresses.parse("127.0.0.0/8")
RECORDS = [Record(b"v%d" % n) for n in range(20)]


def landed(folder: Path, records: list[Record] = RECORDS, delivery: str = "d81c", **more: Any) -> Batch:
    batch = Batch(folder, records, token=delivery, **{"commit_strategy": "after-processing", **more})
    batch.staging.mkdir(parents=True)
    return batch


def processor(
    uri: str, connections: Sequence[Connection] = (), output: Path = Path("nowhere"), **endpoint: Any
) -> HttpProcessor:
    return HttpProcessor(
        HttpEndpoint(uri, **{"retry_before_commit": 1, "delay_ms": 0, **endpoint}),
        MemoryConnections(*connections),
        LOOPBACK,
        broker="kafka_default",
        consumer="orders_orders-hook",
        output=output,
    )


def output_of(batch: Batch) -> Path:
    return batch.staging.parents[1]


def deliver(batch: Batch, uri: str, timeout: float | None = None, **endpoint: Any) -> list[str]:
    said: list[str] = []
    processor(uri, **endpoint).run(f"file://{batch.manifest}", timeout, said.append, lambda: None)
    return said


def audited(batch: Batch) -> tuple[int, int]:
    """Rows and rejected records as the engine counts them, which holds every file against the result."""
    staged = StagedFiles()
    staging = f"file://{batch.staging}"
    (result,) = staged.results(staging)
    counts = staged.seal(staging, result)
    assert result.read == counts.written + counts.rejected
    return counts.written, counts.rejected


def fail_at(*offsets: int, status: int = 500) -> Any:
    return lambda handler, offset: say(handler, status if offset in offsets else 200, b"no room")


def test_each_record_is_a_request_and_a_row(tmp_path: Path) -> None:
    batch = landed(tmp_path)
    with hooked() as hook:
        said = deliver(batch, hook.uri)
    assert hook.begun == [(0, 2 * n) for n in range(20)]
    assert hook.bodies == [record.value for record in RECORDS]
    assert audited(batch) == (20, 0)
    rows = batch.rows()
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("flights", 0, 2 * n) for n in range(20)
    ]
    assert {(row["status"], row["attempts"]) for row in rows} == {(200, 1)}
    assert abs(rows[0]["answered"].timestamp() - time.time()) < 60
    assert said[-1].startswith("20 of 20 records are delivered; ")
    assert not list(batch.staging.glob(".sorted*"))


def test_partitions_that_landed_mixed_are_each_sent_in_order(tmp_path: Path) -> None:
    records = [Record(b"%d" % n, partition=n % 3, topic=f"t{n % 2}") for n in range(300)]
    ranges = [
        (f"t{t}", p, 0, 600, sum(n % 3 == p and n % 2 == t for n in range(300))) for t in (0, 1) for p in range(3)
    ]
    batch = landed(tmp_path, records, ranges=ranges)
    with hooked() as hook:
        deliver(batch, hook.uri, concurrency=1)
    assert audited(batch) == (300, 0)
    for topic in ("t0", "t1"):
        for partition in range(3):
            sent = [
                int(each["QOH-Message-Number"])
                for each in hook.headers
                if (each["QOH-Topic"], each["QOH-Partition"]) == (topic, str(partition))
            ]
            assert sent == sorted(sent)
            assert len(sent) == 50


def test_what_lies_outside_of_the_ranges_is_not_sent(tmp_path: Path) -> None:
    batch = landed(tmp_path, ranges=[("flights", 0, 10, 20, 5)])
    with hooked() as hook:
        deliver(batch, hook.uri)
    assert [offset for _, offset in hook.begun] == [10, 12, 14, 16, 18]


def test_a_record_that_is_given_up_is_rejected_with_its_status_and_what_was_answered(tmp_path: Path) -> None:
    batch = landed(tmp_path, [Record(b"a", headers=[("h", b"1")]), Record(None), Record(b"c")])
    with hooked(fail_at(0, 2)) as hook:
        deliver(batch, hook.uri, retry_before_commit=2)
    assert [offset for _, offset in hook.begun] == [0] * 3 + [2] * 3 + [4]
    assert audited(batch) == (1, 2)
    rejected = batch.rows("rejected_files")
    assert [row["reason"] for row in rejected] == ["HTTP status 500 after 3 attempts: no room"] * 2
    assert [(row["value"], row["headers"]) for row in rejected] == [(b"a", [{"key": "h", "value": b"1"}]), (None, None)]


def test_a_template_that_does_not_fit_a_record_rejects_it_unsent(tmp_path: Path) -> None:
    batch = landed(tmp_path, [Record(b'{"a": "x\\"y"}'), Record(b"{}"), Record(b"\xff")])
    with hooked() as hook:
        deliver(batch, hook.uri, body='{"text": {{ value.a }}}')
    assert [json.loads(body) for body in hook.bodies] == [{"text": 'x"y'}]
    assert hook.headers[0]["Content-Type"] == "application/json"
    reasons = [row["reason"] for row in batch.rows("rejected_files")]
    assert reasons[0] == (
        "no request can be made of it: the template doesn't fit it: undefined value: `value.a` is undefined (line 1)"
    )
    assert reasons[1].startswith("no request can be made of it: the template doesn't fit it: undefined value: `value")
    assert reasons[1].endswith("; it has no value in UTF-8")


def test_what_a_template_does_not_name_may_be_bytes(tmp_path: Path) -> None:
    batch = landed(tmp_path, [Record(b"\xff", headers=[("h", b"\xff"), ("id", b"7")])])
    with hooked() as hook:
        deliver(batch, hook.uri, body='{"id": {{ headers.id }}, "at": {{ offset }}}')
    assert [json.loads(body) for body in hook.bodies] == [{"id": 7, "at": 0}]


def test_a_delivery_waits_as_long_as_it_may_and_no_longer_for_a_server_that_asks_for_more(tmp_path: Path) -> None:
    """If it failed at once, the next one would come sooner, and ask a server again that had asked for patience."""
    batch, began = landed(tmp_path), time.monotonic()

    def busy(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", "3600")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with hooked(busy) as hook:
        with pytest.raises(
            DeliveryTimeoutError,
            match=r"20 of 20 .* HTTP status 429 after 1 attempt; .* unless its Retry-After is longer",
        ):
            deliver(batch, hook.uri, 1.0, retry_before_commit=1, delay_ms=0)
        assert 1 <= time.monotonic() - began < 20
        assert len(hook.begun) == len(set(hook.begun))  # none was sent again


def test_a_delivery_that_ran_out_of_time_says_the_last_answer_of_a_record_that_was_not_delivered(
    tmp_path: Path,
) -> None:
    """And not that of one which was refused at first: each kind of failure is told as it is met."""
    batch, said = landed(tmp_path), list[str]()

    def answer(handler: BaseHTTPRequestHandler, offset: int) -> None:
        is_first = hook.begun.count((0, offset)) == 1
        say(handler, 503 if offset == 0 and is_first else 500 if offset == 4 else 200, b"DB\ndown")

    with hooked(answer) as hook:
        slow = processor(hook.uri, retry_before_commit=0, delay_ms=50, concurrency=2)
        with pytest.raises(DeliveryTimeoutError) as raised:
            slow.run(f"file://{batch.manifest}", 3.0, said.append, lambda: None)
        place = hook.uri.removesuffix("/hook")
    assert re.match(
        f"1 of 20 records weren't delivered to {place} within 3 s: flights-0 at 4: HTTP status 500 after [0-9]+ "
        "attempts: DB down; what was delivered isn't sent again; ",
        str(raised.value),
    )
    again = "after 1 attempt: DB down; it is sent again, and other failures of this kind aren't told"
    assert sorted(said) == [f"flights-0 at 0: HTTP status 503 {again}", f"flights-0 at 4: HTTP status 500 {again}"]


def test_a_delivery_that_ran_out_of_time_says_why_there_was_no_answer(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(
            DeliveryTimeoutError, match=r"within 1 s: flights-0 at 0: no answer after \d+ attempts: .*onnect"
        ):
            deliver(landed(tmp_path), uri, 1.0, retry_before_commit=0, delay_ms=50)


@pytest.mark.parametrize("status", [401, 407])
def test_credentials_that_are_refused_until_the_time_is_over_are_to_be_renewed(tmp_path: Path, status: int) -> None:
    batch, known = landed(tmp_path), Connection("hook", "http", None, None, None, "t0ken", {})
    with hooked(lambda handler, _: say(handler, status)) as hook:
        made = processor(hook.uri, [known], connection="hook", retry_before_commit=0, delay_ms=50)
        one = replace(made, allowed=AllowedAddresses.parse("127.0.0.1, localhost"))
        with pytest.raises(UnauthorizedError, match=f"refuses the connection's credentials: .* HTTP status {status}; "):
            one.run(f"file://{batch.manifest}", 1.0, lambda _: None, lambda: None)


def test_without_a_word_of_anybody_nothing_is_sent_again(tmp_path: Path) -> None:
    """A delivery that ran out of time, then one that comes to an end."""
    first = landed(tmp_path, delivery="a" * 32)
    stuck = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, offset: int) -> None:
        if offset >= 20 and not stuck.is_set():
            say(handler, 503)
        else:
            say(handler, 200)

    with hooked(answer) as hook:
        with pytest.raises(DeliveryTimeoutError) as raised:
            deliver(first, hook.uri, 1.0, retry_before_commit=0, delay_ms=10)
        assert str(raised.value).startswith(
            f"10 of 20 records weren't delivered to {hook.uri.removesuffix('/hook')} within 1 s"
        )
        stuck.set()
        hook.begun.clear()
        second = landed(tmp_path, delivery="b" * 32)
        said = deliver(second, hook.uri)
    assert hook.begun == [(0, 2 * n) for n in range(10, 20)]
    assert said[0] == "10 of 20 records were answered in an earlier delivery and aren't sent again"
    assert audited(second) == (20, 0)


def test_acknowledgements_are_found_by_who_commits_by_them(tmp_path: Path) -> None:
    batch = landed(tmp_path, commit_strategy="throttled")
    seen: list[int] = []
    with hooked(lambda handler, offset: (time.sleep(0.15), fail_at(38)(handler, offset))[1]) as hook:
        one = processor(hook.uri)
        one.run(
            f"file://{batch.manifest}",
            None,
            lambda _: None,
            lambda: seen.append(len(StagedFiles().ack_files(f"file://{batch.staging}"))),
        )
    assert seen == sorted(seen)
    assert seen[-1] >= 1
    (result,) = StagedFiles().results(f"file://{batch.staging}")
    acks = StagedFiles().settled_files(f"file://{batch.staging}", result)
    assert len(acks) >= 2  # logs of a second each, and the rejected record


@contextmanager
def apart(batch: Batch, hook: Hook, after: int, **endpoint: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Deliver in a process of its own, which has begun so many requests; it is killed at the end."""
    code = (
        "import json, pathlib, sys\n"
        "from tidegate.http.allowed import AllowedAddresses\n"
        "from tidegate.http.processor import HttpProcessor\n"
        "from tidegate.model.subscription import HttpEndpoint\n"
        "from tidegate.testing.connections import MemoryConnections\n"
        "uri, manifest, output, more = sys.argv[1:]\n"
        "HttpProcessor(HttpEndpoint(uri, **json.loads(more)), MemoryConnections(),\n"
        "    AllowedAddresses.parse('127.0.0.0/8'), broker='k', consumer='c', output=pathlib.Path(output)\n"
        ").run(manifest, None, print, lambda: None)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, hook.uri, f"file://{batch.manifest}", str(output_of(batch)), json.dumps(endpoint)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        until = time.monotonic() + 120
        while len(hook.begun) < after:
            assert time.monotonic() < until
            assert child.poll() is None
            time.sleep(0.001)  # between two looks at what the server has got
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize(("concurrency", "after"), [(1, 1), (1, 30), (1, 77), (8, 40), (32, 150)])
def test_after_sigkill_only_what_was_in_flight_comes_twice(tmp_path: Path, concurrency: int, after: int) -> None:
    records = [Record(b"%d" % n, partition=n % 2) for n in range(400)]
    ranges = [("flights", p, 0, 800, 200) for p in (0, 1)]

    def slow(handler: BaseHTTPRequestHandler, _: int) -> None:
        time.sleep(0.003)
        say(handler, 200)

    with hooked(slow) as hook:
        with apart(landed(tmp_path, records, "a" * 32, ranges=ranges), hook, after, concurrency=concurrency):
            pass
        hook.quiet()
        second = landed(tmp_path, records, "b" * 32, ranges=ranges)
        deliver(second, hook.uri, concurrency=concurrency)
    assert audited(second) == (400, 0)
    twice = len(hook.begun) - len(set(hook.begun))
    assert len(set(hook.begun)) == 400
    assert twice <= 2 * concurrency
    if concurrency == 1:
        for partition in (0, 1):
            offsets = [offset for at, offset in hook.begun if at == partition]
            assert offsets == sorted(offsets)  # also over the kill


def test_while_one_delivery_sends_or_sleeps_amid_it_no_other_begins(tmp_path: Path) -> None:
    """One that was taken for dead goes on where it was: whoever had sent the rest meanwhile had sent it twice."""

    def slow(handler: BaseHTTPRequestHandler, _: int) -> None:
        time.sleep(0.003)
        say(handler, 200)

    first = landed(tmp_path, delivery="a" * 32)
    with hooked(slow) as hook:
        with apart(first, hook, 5) as child:
            child.send_signal(signal.SIGSTOP)
            second = landed(tmp_path, delivery="b" * 32)
            for begin in (processor(hook.uri, output=output_of(second)).check, lambda: deliver(second, hook.uri)):
                with pytest.raises(UnavailableError, match=f"process {child.pid} of .* still sends"):
                    begin()
            child.send_signal(signal.SIGCONT)
            assert child.wait(120) == 0
        assert audited(first) == (20, 0)
        processor(hook.uri, output=output_of(second)).check()
        deliver(second, hook.uri)
    assert audited(second) == (20, 0)
    assert hook.begun == [(0, 2 * n) for n in range(20)]


def test_whoever_only_looks_stands_in_nobodys_way(tmp_path: Path) -> None:
    with only_sender(tmp_path):
        pass
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.0002):
            with suppress(UnavailableError):
                refuse_second(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(500):
            with only_sender(tmp_path):
                pass
    finally:
        over.set()
        looking.join()


def test_one_that_wakes_up_behind_the_batch_sends_nothing(tmp_path: Path) -> None:
    second = landed(tmp_path, delivery="b" * 32)
    with hooked() as hook:
        deliver(second, hook.uri)
        (result,) = second.staging.glob("*/_result")
        result.parent.rename(output_of(second) / "batch_id=b3f0")
        with pytest.raises(StaleError, match="is published"):
            deliver(landed(tmp_path, delivery="a" * 32), hook.uri)
    assert len(hook.begun) == 20


def test_an_empty_share_and_a_batch_of_tombstones_are_delivered(tmp_path: Path) -> None:
    batch = landed(tmp_path, [Record(None, key=None)] * 3)
    with hooked() as hook:
        deliver(batch, hook.uri)
    assert (hook.bodies, audited(batch)) == ([b""] * 3, (3, 0))


# Before a delivery begins


def test_a_server_that_is_away_is_said_before_a_delivery_begins() -> None:
    with hooked() as hook:
        uri = hook.uri
        processor(uri).check()
    with pytest.raises(
        UnavailableError, match=r"can't be reached: nobody takes a connection .*no delivery counts for it"
    ):
        processor(uri).check()


def test_a_name_that_nobody_knows_is_said() -> None:
    with pytest.raises(UnavailableError, match=r"the name nowhere.invalid can't be resolved"):
        processor("http://nowhere.invalid/").check()


@pytest.mark.parametrize("uri", ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://[::1]/"])
def test_an_address_that_is_not_allowed_is_refused_before_a_delivery_begins(uri: str) -> None:
    with pytest.raises(WrongDefinitionError, match="isn't an address that anybody can reach"):
        processor(uri).check()


@pytest.mark.parametrize(
    "signed", [{}, {"expired": True}, {"hosts": ("elsewhere.test",)}], ids=["nobody", "old", "host"]
)
def test_a_server_whose_certificate_is_not_trusted_is_no_records_fault(tmp_path: Path, signed: dict[str, Any]) -> None:
    authority = Authority.new("ca")
    batch = landed(tmp_path)
    trusts = {"verify": str(authority.write_pem(tmp_path / "ca.pem"))} if signed else {}
    known = {"connections": [Connection("hook", "http", None, None, None, None, trusts)], "connection": "hook"}
    with hooked(tls=tls_of(authority, tmp_path, **signed)) as hook:
        for begin in (processor(hook.uri, **known).check, lambda: deliver(batch, hook.uri, **known)):
            with pytest.raises(
                WrongDefinitionError, match=r"can't be sent to: .*certificate.*; .* name .* as verify in the extra of "
            ):
                begin()
    assert not hook.begun


def test_a_server_whose_certificate_is_trusted_is_reached_and_is_sent_nothing(tmp_path: Path) -> None:
    authority = Authority.new("ca")
    mine = str(authority.sign("client").write_pem(tmp_path / "client.pem"))
    extra = {"verify": str(authority.write_pem(tmp_path / "ca.pem")), "cert": mine}
    with hooked(tls=tls_of(authority, tmp_path, asks=True)) as hook:
        processor(hook.uri, [Connection("hook", "http", None, None, None, None, extra)], connection="hook").check()
        hook.quiet()
    assert not hook.begun


def test_a_server_that_speaks_no_tls_is_said_before_a_delivery_begins() -> None:
    with (
        hooked() as hook,
        pytest.raises(
            UnavailableError, match=r"can't be reached: no encrypted connection comes about .*no delivery counts for it"
        ),
    ):
        processor(hook.uri.replace("http:", "https:")).check()


def test_a_certificate_that_the_server_refuses_at_once_is_said_before_a_delivery_begins(tmp_path: Path) -> None:
    authority = Authority.new("ca")
    context = tls_of(authority, tmp_path, asks=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    known = Connection("hook", "http", None, None, None, None, {"verify": str(authority.write_pem(tmp_path / "ca"))})
    with hooked(tls=context) as hook, pytest.raises(UnauthorizedError, match="refuses the connection's certificate"):
        processor(hook.uri, [known], connection="hook").check()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
@pytest.mark.parametrize("shown", ["none", "expired", "foreign"])
def test_a_certificate_that_the_server_refuses_is_no_records_fault(
    tmp_path: Path, shown: str, version: ssl.TLSVersion
) -> None:
    """Mostly the connection just breaks under TLS 1.3, as the request is under way when the server refuses."""
    authority, batch = Authority.new("ca"), landed(tmp_path)
    context = tls_of(authority, tmp_path, asks=True)
    context.minimum_version = context.maximum_version = version
    extra = {"verify": str(authority.write_pem(tmp_path / "ca.pem"))}
    if shown != "none":
        by = authority if shown == "expired" else Authority.new("other")
        extra["cert"] = str(by.sign("client", expired=shown == "expired").write_pem(tmp_path / "client.pem"))
    connection = Connection("hook", "https", None, None, None, None, extra)
    with (
        hooked(tls=context) as hook,
        pytest.raises(
            UnauthorizedError, match=r"refuses the connection's certificate, or that it has none: alert [a-z]"
        ),
    ):
        deliver(batch, hook.uri, connections=[connection], connection="hook", concurrency=4)
    assert not hook.begun
    assert not list(batch.staging.glob("*/_result"))


@pytest.mark.parametrize("status", [401, 407])
def test_credentials_that_the_server_refuses_are_no_records_fault(tmp_path: Path, status: int) -> None:
    """And what was answered before they expired isn't sent again once they are renewed."""
    connection, refused = Connection("hook", "http", None, None, None, "t0ken", {}), threading.Event()
    refused.set()
    allowed = AllowedAddresses.parse("127.0.0.1, localhost")

    def answer(handler: BaseHTTPRequestHandler, offset: int) -> None:
        say(handler, status if offset >= 20 and refused.is_set() else 200, b"no")

    def one(uri: str, batch: Batch) -> HttpProcessor:
        made = processor(uri, [connection], connection="hook", concurrency=1, retry_before_commit=2)
        return replace(made, allowed=allowed, output=output_of(batch))

    first = landed(tmp_path, delivery="a" * 32)
    with hooked(answer) as hook:
        with pytest.raises(UnauthorizedError, match=f"refuses the connection's credentials: .* HTTP status {status}; "):
            one(hook.uri, first).run(f"file://{first.manifest}", None, lambda _: None, lambda: None)
        assert [offset for _, offset in hook.begun] == [*range(0, 20, 2), 20, 20, 20]
        assert not list(first.staging.glob("*/_result"))
        refused.clear()
        hook.begun.clear()
        second = landed(tmp_path, delivery="b" * 32)
        one(hook.uri, second).run(f"file://{second.manifest}", None, lambda _: None, lambda: None)
    assert [offset for _, offset in hook.begun] == list(range(20, 40, 2))
    assert audited(second) == (20, 0)


def test_without_credentials_a_status_401_is_the_records_own(tmp_path: Path) -> None:
    batch = landed(tmp_path)
    with hooked(fail_at(4, status=401)) as hook:
        deliver(batch, hook.uri)
    assert audited(batch) == (19, 1)


def test_a_lake_elsewhere_is_refused(tmp_path: Path) -> None:
    batch = landed(tmp_path)
    document = json.loads(batch.manifest.read_text())
    batch.manifest.write_text(json.dumps(document | {"staging": "hdfs://lake/x/_staging/y"}))
    with hooked() as hook, pytest.raises(WrongDefinitionError, match="must be a folder of this machine"):
        deliver(batch, hook.uri)


def test_rows_have_the_types_that_readers_expect(tmp_path: Path) -> None:
    batch = landed(tmp_path)
    with hooked() as hook:
        deliver(batch, hook.uri)
    (attempt,) = [each for each in batch.attempts if not each.name.startswith(".")]
    schema = pq.read_schema(attempt / batch.result()["files"][0]["path"])
    assert [(field.name, str(field.type)) for field in schema] == [
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("status", "int32"),
        ("attempts", "int32"),
        ("answered", "timestamp[ms, tz=UTC]"),
    ]
