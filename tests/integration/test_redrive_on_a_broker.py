"""`tidegate dead-letters` on a real broker: listed, shown and redriven each once, whatever is killed."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from broker_topics import delete_topic, is_there
from by_night import one_in
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from forking import Forked
from redrive_world import Yard, opened
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.dead_letters.letter import Settled
from tidegate.dead_letters.redriver import RedriveRequest
from tidegate.dead_letters.targets import Targets
from tidegate.model.errors import CommitFailedError, StaleError
from tidegate.model.records import Outgoing
from tidegate.model.subscription import TopicNames
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

_SECONDS = 120
_SHUT_OUT = 3
_PAUSE = Event()
DEFINITION = """\
topics: [{topic}]
consumer: {{group.id: "{topic}-lake"}}
processing: {{output: out}}
"""


@pytest.fixture
def yard(broker: Broker, admin: AdminClient, topic: Callable[..., str], tmp_path: Path) -> Yard:
    name = topic(partitions=2)
    topic(partitions=2, name=f"dead-letter-topic-{name}")
    return Yard(name, broker, tmp_path, admin)


@pytest.fixture
def command(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`command("list", "--json")`, with the subscription's name put behind the first word."""
    folder = yard.home / "subscriptions"
    folder.mkdir()
    (folder / f"{yard.name}.yaml").write_text(DEFINITION.format(topic=yard.name))
    extra = {"conn_type": "kafka", "extra": {"bootstrap.servers": yard.broker.bootstrap_servers}}
    monkeypatch.setenv("TIDEGATE_HOME", str(yard.home))
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(folder))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(extra))

    def run(word: str, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["dead-letters", word, yard.name, *arguments])

    return run


def test_records_come_back_as_they_were(yard):
    yard.put(3, partitions=2)
    assert yard.redrive().done.to == {yard.name: 3}
    messages = {int(message.value()): message for message in yard.arrived()}
    assert sorted(messages) == [0, 1, 2]
    one = messages[1]
    assert (one.key(), one.partition(), one.timestamp()[1]) == (b"k1", 1, 1001)
    headers = one.headers()
    assert headers[:3] == [("trace", b"\x00\xff"), ("nothing", None), ("dead-letter-reason", b"no number")]
    assert headers[-1] == ("tidegate-redriven-from", f"{yard.topic}/1/0".encode())
    assert yard.redrive().done.redriven_before == 3


def test_more_than_one_chunk_and_only_what_was_committed_to_the_dead_letter_topic(yard):
    yard.put(2_500, partitions=2)
    aborting = Producer({"bootstrap.servers": yard.broker.bootstrap_servers, "transactional.id": uuid.uuid4().hex})
    aborting.init_transactions(60)
    aborting.begin_transaction()
    aborting.produce(yard.topic, b"-1", headers=[("dead-letter-topic", yard.name.encode())])
    aborting.flush(120)
    aborting.abort_transaction()
    said: list[int] = []
    with yard.letters() as letters:
        order = yard.order()
        letters.redriver(order).run(letters.survey(order), said.append)
    assert said == [1000, 250, 1000, 250]
    assert yard.values() == list(range(2_500))


def test_a_record_that_the_broker_does_not_take_costs_its_chunk_and_is_named(yard, topic):
    small = topic(config={"max.message.bytes": "1000"})
    yard.put(1, to=small)
    headers = [("dead-letter-topic", small.encode())]
    producer = yard.producer
    producer.produce(yard.topic, os.urandom(5000), b"large", 0, headers=headers)
    assert producer.flush(120) == 0
    with pytest.raises(
        CommitFailedError,
        match=rf"topic {small} doesn't take the record from dead letter {yard.topic}/0/1 .*max\.message\.bytes",
    ):
        yard.redrive(allowed=[small])
    assert yard.arrived(small) == []
    second = yard.redrive(limit=1, allowed=[small])
    assert (second.settled, len(yard.arrived(small))) == (Settled(dropped=2), 1)


# The turn


def test_a_newer_redriver_shuts_out_an_older_one(yard, capfd):
    yard.put(2)
    with yard.letters() as first:
        order = yard.order()
        redriver = first.redriver(order)
        surveyed = first.survey(order)
        take = first.turns.acquire

        @contextmanager
        def overtaken() -> Iterator[Any]:
            with take() as turn:
                yard.redrive()
                yield turn

        redriver._turns = type("", (), {"acquire": staticmethod(overtaken)})()
        with pytest.raises(StaleError, match="a newer redrive of this topic has taken over"):
            redriver.run(surveyed, lambda _: None)
        turns = first.turns
        with turns.acquire() as old, turns.acquire() as new:
            with pytest.raises(StaleError, match="newer committer"):
                old.produce([Outgoing(yard.name, None, None, None, b"9", ())], "a" * 32)
            new.produce([], "b" * 32)
            assert (old.last_token(), new.last_token()) == ("b" * 32, "b" * 32)
    assert yard.values() == [0, 1]
    assert "FATAL" not in capfd.readouterr().err  # the client's own line, beside what is raised


# Crashes


@dataclass(frozen=True)
class Struck:
    """A port that strikes the process before or after a call."""

    port: Any
    point: str
    strike: signal.Signals

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self._strike(f"before {name}")
            answer = getattr(self.port, name)(*args)
            self._strike(f"after {name}")
            return answer

        return call

    @contextmanager
    def acquire(self) -> Iterator["Struck"]:
        with self.port.acquire() as turn:
            self._strike("after acquire")
            yield Struck(turn, self.point, self.strike)

    def _strike(self, at: str) -> None:
        if at == self.point:
            os.kill(os.getpid(), self.strike)


def struck_redrive(name: str, home: Path, servers: str, point: str, strike: signal.Signals) -> None:
    """The child: a redrive that is struck; it ends with 3 if it is shut out."""
    from confluent_kafka import Producer as Real  # noqa: PLC0415

    from tidegate.kafka import group  # noqa: PLC0415

    with opened(name, home, servers) as letters:
        order = RedriveRequest(name, Targets(TopicNames((name,))))
        surveyed = letters.survey(order)
        redriver = letters.redriver(order)
        if point == "before commit_transaction":

            class Dying(Real):  # type: ignore[misc]
                def commit_transaction(self, seconds: float) -> None:
                    if letters.ledger.marks(surveyed.identity, 0, [0]):  # its records were noted, so these were sent
                        os.kill(os.getpid(), strike)
                    super().commit_transaction(seconds)

            group.Producer = Dying
        else:
            redriver._ledger = Struck(letters.ledger, point, strike)
            redriver._turns = Struck(letters.turns, point, strike)
        try:
            redriver.run(surveyed, lambda _: None)
        except StaleError:
            os._exit(_SHUT_OUT)


def started(yard: Yard, point: str, strike: signal.Signals) -> Forked:
    return Forked(struck_redrive, yard.name, yard.home, yard.broker.bootstrap_servers, point, strike)


POINTS = {
    "after acquire": Settled(),
    "after take_turn": Settled(),
    "after settle": Settled(),
    "after produce": Settled(),  # of the group's first token
    "before note": Settled(),
    "after note": Settled(dropped=3),
    "before commit_transaction": Settled(dropped=3),
    "before mark": Settled(redriven=3),
    "after mark": Settled(),
}


@pytest.mark.parametrize("point", one_in(3, POINTS))
def test_after_a_kill_the_next_redrive_brings_each_record_once(yard, point):
    yard.put(3)
    child = started(yard, point, signal.SIGKILL)
    assert child.is_over(_SECONDS)
    assert child.exit_code == -signal.SIGKILL, f"not killed {point}"
    second = yard.redrive()
    assert second.settled == POINTS[point]
    assert yard.values() == [0, 1, 2]
    third = yard.redrive()
    assert (third.settled, third.done.redriven_before) == (Settled(), 3)
    assert yard.values() == [0, 1, 2]


@pytest.mark.parametrize(
    ("point", "ends"),
    [
        ("after take_turn", _SHUT_OUT),
        ("after note", _SHUT_OUT),
        ("before commit_transaction", _SHUT_OUT),
        ("before mark", 0),  # its records were committed, and all there were
    ],
)
def test_whoever_slept_through_a_whole_redrive_is_shut_out(yard, point, ends):
    yard.put(3)
    child = started(yard, point, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + _SECONDS
        while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline, f"never came to {point}"
            _PAUSE.wait(0.02)
        assert yard.redrive().settled.unknown == 0
        assert yard.values() == [0, 1, 2]
        os.kill(child.pid, signal.SIGCONT)
        assert child.is_over(_SECONDS)
        assert child.exit_code == ends
    finally:
        child.end(_SECONDS)
    assert yard.values() == [0, 1, 2]
    last = yard.redrive()
    assert (last.settled, last.done.redriven_before) == (Settled(), 3)


# The command line


def on_a_terminal(yard: Yard, answer: bytes) -> tuple[int, str]:
    """`tidegate dead-letters redrive` as a person runs it: the exit status, and all that was said."""
    ours, theirs = pty.openpty()
    program = [Path(sys.executable).with_name("tidegate"), "dead-letters", "redrive", yard.name]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        os.close(theirs)
        said, answered = b"", False
        while arrived := _read(ours):
            said += arrived
            if b"[y/N]" in said and not answered:
                answered = True
                os.write(ours, answer)
    os.close(ours)
    return child.returncode, said.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.usefixtures("command")
def test_a_person_is_asked_first(yard):
    yard.put(3)
    status, said = on_a_terminal(yard, b"n\n")
    assert (status, yard.values()) == (1, [])
    assert f"Redrive 3 dead letters (3 to {yard.name}) from {yard.topic}?" in said
    status, said = on_a_terminal(yard, b"y\n")
    assert (status, yard.values()) == (0, [0, 1, 2])
    assert "3/3" in said


def test_the_command_line_lists_shows_and_redrives(yard, command):
    yard.put(3, partitions=2, reason="no number")
    yard.put(1, reason="bad\x1b[2J\tdate")
    listed = command("list")
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0] == f"0:0\t{yard.name} 1:0\t1970-01-01T00:00:01.000Z\t\tno number"
    assert lines[2].endswith("\tbad\\x1b[2J\\tdate")
    assert "4 dead letters" in listed.stderr
    assert "3  no number" in listed.stderr

    refused = command("redrive")
    assert (refused.exit_code, "--yes" in refused.output) == (2, True)
    tried = json.loads(command("redrive", "--dry-run", "--json", "--reason", "num").stdout)
    assert (tried["dry_run"], tried["count"], tried["to"]) == (True, 3, {yard.name: 3})
    assert yard.values() == []

    done = command("redrive", "--yes", "--reason", "num")
    assert (done.exit_code, done.stdout) == (
        0,
        f"{yard.name}: 3 dead letters (3 to {yard.name}) of {yard.topic} redriven\n",
    )
    assert yard.values() == [0, 1, 2]
    again = command("redrive", "--yes", "--json")
    assert json.loads(again.stdout)["skipped"]["redriven_before"] == 3

    listed = json.loads(command("list", "--json").stdout)
    assert [letter["redrive"]["state"] for letter in listed["letters"]] == ["redriven"] * 4
    assert (listed["count"], listed["redriven"]) == (4, 4)
    assert listed["reasons"][0] == {"reason": "no number", "count": 3}

    shown = json.loads(command("show", "1:0", "--json").stdout)
    assert (shown["key"], shown["value"], shown["timestamp"]) == ({"text": "k1"}, {"text": "1"}, 1001)
    assert shown["headers"][0] == {"name": "trace", "value": {"hex": "00ff", "base64": "AP8="}}
    assert shown["headers"][1] == {"name": "nothing", "value": None}
    assert "trace: 0x00ff" in command("show", "1:0").stdout
    for wrong in ("1:9", "0", "x:y"):
        assert command("show", wrong).exit_code == 2
    missed = command("show", "1:9", "--json")
    said = json.loads(missed.stdout)["error"]
    assert (missed.exit_code, f"{yard.topic} has no record at 1:9; it holds {yard.topic}-0" in said) == (2, True)


def test_a_letter_goes_to_no_topic_that_its_subscription_does_not_read(yard, command, topic):
    other = topic()
    yard.put(2)
    yard.put(3, to=other)
    yard.put(1, to="__consumer_offsets")
    done = command("redrive", "--yes")
    assert done.exit_code == 0
    assert "1 say that they came from __consumer_offsets" in done.stderr
    assert f"3 say that they came from {other}, which {yard.name} doesn't read" in done.stderr
    assert "--allow-topic" in done.stderr
    assert (yard.values(), yard.arrived(other)) == ([0, 1], [])
    for wrong in ("--allow-topic", "--to"):
        refused = command("redrive", "--yes", wrong, "__consumer_offsets")
        assert (refused.exit_code, "keeps for itself" in refused.output) != (0, False)
    asked = json.loads(command("redrive", "--dry-run", "--json", "--allow-topic", other).stdout)
    assert (asked["to"], asked["skipped"]["other_topics"]) == ({other: 3}, 1)
    assert asked["other_topics"] == {"__consumer_offsets": 1}
    assert command("redrive", "--yes", "--allow-topic", other).exit_code == 0
    assert len(yard.arrived(other)) == 3


def test_without_a_dead_letter_topic_there_are_none(yard, command):
    delete_topic(yard.admin, yard.topic)
    none = (
        f"topic {yard.topic} isn't there, or the connection's user may not see it, and the ledger knows of no record "
        "that became a dead letter\n"
    )
    listed = command("list")
    assert (listed.exit_code, listed.stdout) == (0, none)
    document = json.loads(command("list", "--json").stdout)
    assert (document["exists"], document["dead_lettered"]) == (False, 0)
    redriven = command("redrive", "--yes")
    assert (redriven.exit_code, redriven.stdout) == (0, f"{yard.name}: {none}")
    document = json.loads(command("redrive", "--yes", "--json").stdout)
    assert (document["exists"], document["count"], document["error"]) == (False, 0, None)
    assert not is_there(yard.admin, yard.topic)
