"""What the ledger knows of dead letters whose topic isn't there, or has lost some."""

from dataclasses import replace
from pathlib import Path

import pytest
from ledger_batches import COUNTS, plan, processing, result
from redrive_world import opened

from tidegate.config.settings import Settings
from tidegate.dead_letters.letter import DeadLetterFilter
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.model.errors import StaleError
from tidegate.operations.actions.redriving import preview_redrive
from tidegate.testing.redriving import MemoryDeadLetters


@pytest.mark.parametrize(
    ("strategy", "known"), [("dead-letter-queue", COUNTS.rejected), ("ignore", 0), ("delayed-retry-topic", 0)]
)
def test_what_a_published_batch_rejected_became_dead_letters_only_where_the_strategy_writes_them(
    tmp_path: Path, strategy: str, known: int
) -> None:
    ledger = SqlLedger(Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)}).ledger)
    batch_id, delivery = processing(ledger)
    ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS)
    ledger.close(batch_id, Outcome.COMMITTED)
    assert COUNTS.rejected
    with opened(plan().subscription, tmp_path, "127.0.0.1:1", failure_strategy=strategy) as letters:
        assert letters.dead_lettered() == known
        topic = MemoryDeadLetters("letters")
        topic.put(b"x", ("dead-letter-reason", b"kept"))
        there = replace(letters, topic=topic)
        assert there.list(DeadLetterFilter(), 9).gone == max(0, known - 1), "the others went by the topic's retention"
        assert there.list(DeadLetterFilter(topic="orders"), 9).gone == 0, "those that weren't asked for aren't gone"
    with opened("others", tmp_path, "127.0.0.1:1", failure_strategy=strategy) as letters:
        assert letters.dead_lettered() == 0


def test_a_redrive_from_a_topic_that_is_not_there_says_that_and_not_to_choose_other_letters(tmp_path: Path) -> None:
    with opened("orders", tmp_path, "127.0.0.1:1", failure_strategy="dead-letter-queue") as letters:
        missing = replace(letters, topic=MemoryDeadLetters("letters"))
        said = (
            r"^there is nothing to redrive: topic letters isn't there, or the connection's user may not see it, and "
            r"the ledger knows of no .* \(subscription orders\); if it is there, let the connection's user see it$"
        )
        with pytest.raises(StaleError, match=said):
            preview_redrive(missing, {}, "ada")
