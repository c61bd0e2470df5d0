"""Several processes at one ledger at the same instant: the rules hold, and nothing comes out but our own errors."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from ledger_batches import COUNTS, NOON, T0, T1, closed, landed, opened, plan, processed, published, report, result
from sqlalchemy import create_engine, text

from tidegate.ledger.redriven import SqlRedrives
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Delivery, Landed, Outcome
from tidegate.model.errors import TidegateError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.ports import Loss, Replay

pytestmark = pytest.mark.long

RUNNERS = 4
ROUNDS = 5
FOUR = tuple(TopicPartition("t", partition) for partition in range(RUNNERS))

Runner = Callable[[SqlLedger, int, str], str]
_line: Barrier


def _stand_at(line: Barrier) -> None:
    global _line  # noqa: PLW0603 - one to a process: a barrier can't be handed over with a task
    _line = line


@pytest.fixture(scope="module")
def runners() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    line = context.Barrier(RUNNERS)
    with ProcessPoolExecutor(RUNNERS, context, initializer=_stand_at, initargs=(line,)) as pool:
        yield pool


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    url: str = request.getfixturevalue("postgres_database")
    return url


Race = Callable[..., list[str]]


@pytest.fixture
def race(runners: ProcessPoolExecutor, empty: str) -> Race:
    """`race(runner, ...)`: what each of the runners answers, started together; a `str` of theirs is passed on."""

    def run(runner: Runner, passed: str = "") -> list[str]:
        at_once = [runners.submit(_run, runner, empty, number, passed) for number in range(RUNNERS)]
        return [future.result(120) for future in at_once]

    return run


@pytest.fixture
def ledger(empty: str) -> SqlLedger:
    return SqlLedger(empty, now=lambda _: NOON)


def _run(runner: Runner, url: str, number: int, passed: str) -> str:
    ledger = SqlLedger(url, now=lambda _: NOON)
    _line.wait(120)
    return _answer(lambda: runner(ledger, number, passed))


def _answer(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except TidegateError as error:
        return type(error).__name__


def _migrate(url: str) -> str:
    _line.wait(120)
    return _answer(lambda: SqlLedger(url).look("flights").version)


def test_an_empty_database_is_migrated_once(runners: ProcessPoolExecutor, empty: str) -> None:
    versions = [future.result(120) for future in [runners.submit(_migrate, empty) for _ in range(RUNNERS)]]
    assert set(versions) == {SqlLedger(empty).look("flights").version}
    with create_engine(empty).connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM tidegate_ledger")) == 1


def _open_the_same(ledger: SqlLedger, number: int, name: str) -> str:
    del number
    return ledger.open(plan(subscription=name), ledger.look(name).version).id


def _open_another(ledger: SqlLedger, number: int, name: str) -> str:
    return ledger.open(plan(number, subscription=name), ledger.look(name).version).id


@pytest.mark.parametrize("runner", [_open_the_same, _open_another])
def test_one_opens_a_batch_and_the_others_are_stale(runner: Runner, race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        name = f"flights{turn}"
        if turn % 2:  # else the subscription is new too
            closed(ledger, plan(RUNNERS, subscription=name))
        answers = race(runner, name)
        assert answers.count("OvertakenError") == RUNNERS - 1
        found = ledger.look(name).open
        assert found is not None
        assert found.id in answers
        assert len(ledger.history(name, 9)) == 1 + turn % 2


def _report(ledger: SqlLedger, number: int, batch_id: str) -> str:
    batch = ledger.batch(batch_id)
    return str(ledger.landed(batch_id, 0, report(batch, 0, less=number)).state)


def test_the_first_report_counts_whole(race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        batch = opened(ledger, plan(subscription=f"flights{turn}"))
        assert race(_report, batch.id) == ["planned"] * RUNNERS
        done = ledger.landed(batch.id, 1, report(batch, 1))
        assert done.ranges[0].end == done.records[T0] == done.files[0].records
        assert (len(done.files), done.records[T1]) == (2, 5)


def _report_own_share(ledger: SqlLedger, number: int, batch_id: str) -> str:
    share = ledger.batch(batch_id).share(number)
    return str(ledger.landed(batch_id, number, Landed(share, {share[0].at: 3}, ())).state)


def test_the_last_of_many_members_makes_the_batch_landed(race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        ranges = tuple(Range(*at, 0, 3) for at in FOUR)
        shares = tuple((at,) for at in FOUR)
        batch = opened(ledger, replace(plan(subscription=f"flights{turn}"), ranges=ranges, shares=shares))
        assert sorted(race(_report_own_share, batch.id)) == ["landed"] + ["planned"] * (RUNNERS - 1)
        assert ledger.batch(batch.id).records == dict.fromkeys(FOUR, 3)


def _start_three(ledger: SqlLedger, number: int, batch_id: str) -> str:
    del number
    return " ".join(str(ledger.start_delivery(batch_id).number) for _ in range(3))


def test_deliveries_are_counted_without_gaps(race: Race, ledger: SqlLedger) -> None:
    batch = landed(ledger)
    answers = race(_start_three, batch.id)
    assert sorted(int(number) for answer in answers for number in answer.split()) == list(range(1, 3 * RUNNERS + 1))
    assert ledger.deliveries(batch.id) == 3 * RUNNERS


def _succeed(ledger: SqlLedger, number: int, passed: str) -> str:
    batch_id, *tokens = passed.split()
    delivery = Delivery(0, tokens[number])
    won = ledger.processed(batch_id, delivery, result(batch_id, delivery, attempt=tokens[number]), COUNTS)
    return str(won.attempt)


def test_the_first_processed_delivery_wins(race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        batch = landed(ledger, plan(subscription=f"flights{turn}"))
        tokens = [ledger.start_delivery(batch.id).token for _ in range(RUNNERS)]
        answers = race(_succeed, " ".join([batch.id, *tokens]))
        winner = ledger.batch(batch.id).delivery
        assert winner is not None
        assert answers == [winner.token] * RUNNERS


def _settle(ledger: SqlLedger, number: int, batch_id: str) -> str:
    del number
    ledger.adopt(batch_id, published(ledger.batch(batch_id)))
    return str(ledger.close(batch_id, Outcome.COMMITTED).outcome)


def test_all_may_settle_a_batch(race: Race, ledger: SqlLedger) -> None:
    batch = processed(ledger)
    answers = race(_settle, batch.id)
    assert set(answers) <= {"committed", "TransitionError"}  # published by one after another had committed
    assert "committed" in answers
    assert ledger.batch(batch.id).outcome is Outcome.COMMITTED


def _note(ledger: SqlLedger, number: int, name: str) -> str:
    ledger.note_missing(name, ["gates", "planes", f"own{number}"])
    ledger.note_topics(name, {"flights": "id", f"own{number}": "id"}, ledger.look(name).version)
    ledger.note_losses(name, [Loss("flights", partition, 3, 5, 9) for partition in range(3)])
    return "noted"


def test_all_may_note_the_same(race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        name = f"flights{turn}"
        assert race(_note, name) == ["noted"] * RUNNERS
        seen = ledger.look(name)
        assert len(seen.missing) == RUNNERS + 2
        assert len(seen.topic_ids) == RUNNERS + 1
        assert len(ledger.losses(name)) == 3


def _note_commit(ledger: SqlLedger, number: int, name: str) -> str:
    version = ledger.look(name).version
    ledger.note_commit(name, "g", {T0: number}, version, topic_ids={"flights": f"id{number}"})
    return "noted"


def test_of_commits_without_a_batch_that_are_noted_at_once_one_is_noted_whole(race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        name = f"flights{turn}"
        assert race(_note_commit, name) == ["noted"] * RUNNERS
        assert ledger.look(name).topic_ids == {"flights": f"id{ledger.last_ends(name, 'g')[T0]}"}


def _begin_replay(ledger: SqlLedger, number: int, name: str) -> str:
    ranges = (Range("t", 0, number, 9), Range("t", 1, number, 9))
    return ledger.begin_replay(Replay(name, "flights", "again", "from here", f"runner {number}", NOON, "", ranges)).by


def test_all_who_begin_a_replay_have_the_one_that_was_first(race: Race, ledger: SqlLedger) -> None:
    for turn in range(ROUNDS):
        name = f"flights-replay-{turn}"
        answers = race(_begin_replay, name)
        (kept,) = (each for each in ledger.replays("flights") if each.name == name)
        assert answers == [kept.by] * RUNNERS
        assert [r.partition for r in kept.ranges] == [0, 1]


def _take_turn(ledger: SqlLedger, number: int, passed: str) -> str:
    del ledger, number
    url, topic = passed.split()
    return str(SqlRedrives(url).take_turn(topic))


def test_turns_at_a_dead_letter_topic_come_one_after_another_from_the_first_on(race: Race, empty: str) -> None:
    for topic in range(ROUNDS):
        assert sorted(race(_take_turn, f"{empty} dead{topic}")) == ["1", "2", "3", "4"]
