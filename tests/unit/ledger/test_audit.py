"""Who did what, of every kind, in one order."""

from datetime import timedelta
from pathlib import Path

from ledger_batches import NOON, landed, plan

from tidegate.ledger.audit import audit_trail
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.stored_definitions import SqlStoredDefinitions
from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import PositionStore
from tidegate.ports import Decision, GroupReset, PositionChange, Replay


def test_every_kind_of_decision_is_told_in_order_of_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger, batch = SqlLedger(url), plan()
    landed(ledger, batch)
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "why")
    ledger.resolve(batch.id, Resolution.STOP, "why")
    ledger.clear(batch.id, Decision("ann", NOON, "mended"))
    change = PositionChange(batch.ranges[0].at, 10, 0)
    reset = GroupReset("r1", "g", "ben", NOON + timedelta(hours=1), "again", (change,), batch.id)
    ledger.begin_reset("flights", reset, ledger.look("flights").version)
    later = NOON + timedelta(hours=2)
    ledger.begin_replay(Replay("flights_r", "flights", "file:///r", "since noon", "cid", later, "a bug", batch.ranges))
    SqlStoredDefinitions(url).add("flights", "{}", {}, "dan")
    ledger.claim_group("flights", "g", "c1")
    ledger.note_store("flights", "g", PositionStore.LEDGER, ledger.look("flights").version, "eve")
    ledger.accept_cluster("flights", "g", "c2", "fay")
    told = audit_trail(url, "flights", 50)
    assert [each.by for each in told] == ["fay", "eve", "dan", "cid", "ben", "ann"]
    assert [each.what for each in told] == [
        "accepted cluster c2 for group g",
        "moved the positions of group g to ledger",
        "definition subscribed",
        "replayed since noon into file:///r as flights_r (which hasn't come to its end)",
        "reset group g: t-0 from 10 to 0 (which may not have been carried out)",
        "answered redeliver",
    ]
    assert [each.note for each in told[-3:]] == ["a bug", "again", "mended"]
    assert [each.batch_id for each in told[-2:]] == [batch.id, batch.id]
    assert len(audit_trail(url, "flights", 2)) == 2
    assert audit_trail(url, "orders", 50) == ()


def test_a_ledger_that_nobody_made_isnt_made(tmp_path: Path) -> None:
    assert audit_trail(f"sqlite:///{tmp_path}/none.db", "flights", 50) == ()
    assert not (tmp_path / "none.db").exists()
