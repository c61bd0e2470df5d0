"""What checkpoints in a database promise beyond every offset store's contract."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from sqlite3 import OperationalError as SqliteError

import pytest
from ledger_batches import NOON
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.exc import OperationalError

from tidegate.ledger.offsets import SqlOffsets
from tidegate.model.errors import (
    BrokerUnavailableError,
    CommitUnknownError,
    StaleError,
    TidegateError,
    UnavailableError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTopics

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
LETTER = Outgoing("letters", 0, None, b"key", b"value", ())


@pytest.fixture
def url(sqlite_ledger: str) -> str:
    return sqlite_ledger


class Store(SqlOffsets):
    """Checkpoints of one subscription, at a time of the test's own."""

    def __init__(self, url: str, subscription: str = "flights", *, at: datetime = NOON, **others: object) -> None:
        self.outbox = others.pop("outbox", None) or MemoryOutbox()
        super().__init__(url, subscription, "g", self.outbox, now=lambda _: at, **others)  # type: ignore[arg-type]


def execute(url: str, statement: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql(statement)


def commit(store: SqlOffsets, offset: int, state: str | None = None) -> None:
    with store.fence() as fence:
        fence.commit({AT: offset, OTHER: offset}, str(offset), state=state)


def stands(store: SqlOffsets) -> tuple[list[int], str | None]:
    return [position.offset for position in store.committed([AT, OTHER]).values()], store.state()


@pytest.mark.parametrize("table", ["tidegate_checkpoints", "tidegate_states"])
def test_a_commit_that_fails_half_way_moves_neither_positions_nor_state(url: str, table: str) -> None:
    store = Store(url)
    commit(store, 3, "3")
    which = "NEW.partition = 1" if table == "tidegate_checkpoints" else "NEW.state = '5'"
    refusing = f"CREATE TRIGGER full BEFORE UPDATE ON {table} WHEN {which} BEGIN SELECT RAISE(ABORT, 'full'); END"
    execute(url, refusing)
    with pytest.raises(TidegateError, match="full"):
        commit(store, 5, "5")
    assert stands(store) == ([3, 3], "3")


@pytest.fixture
def unanswered() -> Iterator[list[bool]]:
    """While it holds anything, no transaction hears whether it was carried out."""
    now: list[bool] = []

    def lose(_: object) -> None:
        if now:
            raise OperationalError("COMMIT", {}, SqliteError("the connection is gone"))

    event.listen(Engine, "commit", lose)
    yield now
    event.remove(Engine, "commit", lose)


def test_an_answer_that_never_came_is_said_to_be_unknown(url: str, unanswered: list[bool]) -> None:
    store = Store(url)
    with store.fence() as fence:
        unanswered.append(True)
        with pytest.raises(CommitUnknownError, match=r"\(subscription flights, group g\); .*finds out"):
            fence.commit({AT: 1}, "one")
        unanswered.clear()


def test_a_database_that_is_away_is_said_so(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/empty.db")
    for asked in (lambda: store.committed([AT]), store.state, lambda: commit(store, 1)):
        with pytest.raises(UnavailableError, match="no such table"):
            asked()


def test_subscriptions_and_groups_are_kept_apart(url: str) -> None:
    commit(Store(url, "flights"), 3, "3")
    commit(Store(url, "trains"), 4, "4")
    assert (stands(Store(url, "flights")), stands(Store(url, "trains"))) == (([3, 3], "3"), ([4, 4], "4"))


def test_records_are_produced_before_anything_is_committed(url: str) -> None:
    topics = MemoryTopics()
    topics.create("letters")
    store = Store(url, outbox=MemoryOutbox(topics))
    commit(store, 3, "3")
    topics.reachable = False
    with store.fence() as fence:
        with pytest.raises(BrokerUnavailableError):
            fence.commit({AT: 5}, "five", outgoing=[LETTER], state="5")
        assert stands(store) == ([3, 3], "3")
        topics.reachable = True
        fence.commit({AT: 5}, "five", outgoing=[LETTER], state="5")
    assert (stands(store), store.outbox.produced) == (([5, 3], "5"), [LETTER])


def test_a_committer_that_was_shut_out_produces_nothing(url: str) -> None:
    store = Store(url)
    with store.fence() as older, store.fence():
        with pytest.raises(StaleError, match=r"newer committer.*goes on, and if it fails, the next run does"):
            older.commit({AT: 5}, "five", outgoing=[LETTER])
        with pytest.raises(StaleError, match="newer committer"):
            older.commit({}, "", outgoing=[LETTER])
    assert (stands(store), store.outbox.produced) == (([], None), [])


def test_a_state_of_any_size_comes_back_as_it_was(url: str) -> None:
    store = Store(url)
    large = json.dumps({"é\0": list(range(200_000))})
    commit(store, 1, large)
    assert store.state() == large
