"""What generations of batches promise, wherever they are kept."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from ledger_batches import NOON, closed, landed, plan, published

from tidegate.ledger.generations import SqlGenerations
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.model.errors import StaleError
from tidegate.ports import Generation, GenerationOutcome, Generations, Made, ReprocessedBatch
from tidegate.testing.generations import MemoryGenerations
from tidegate.testing.ledger import MemoryLedger

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
OUTPUT, OTHER = "delta+file:///lake/flights", "delta+file:///lake/again"
BATCH = plan().id


def now(_: Any = None) -> datetime:
    return NOON


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def generations(request: pytest.FixtureRequest) -> Generations:
    """Of a batch that is committed."""
    if request.param == "memory":
        memory = MemoryLedger(now=now)
        closed(memory, plan())
        return MemoryGenerations(memory, now)
    url = request.getfixturevalue("sqlite_ledger" if request.param == "sqlite" else "postgres_ledger")
    closed(SqlLedger(url, now=now), plan())
    return SqlGenerations(url, now)


def begin(generations: Generations, output: str = OUTPUT, beyond: int = 1) -> Generation:
    return generations.begin(BATCH, output, "ada", "a mended transform", beyond)


def test_a_generation_begins_after_the_first_one_and_ends_with_its_counts(generations: Generations) -> None:
    begun = begin(generations)
    expected = Generation(BATCH, 2, OUTPUT, "ada", NOON, "a mended transform", begun.tokens)
    assert (begun, len(begun.tokens), begun.is_open) == (expected, 1, True)
    ended = generations.end(BATCH, 2, Made(7, 1, 2))
    assert (ended.outcome, ended.ended_at, ended.made) == (GenerationOutcome.REPLACED, NOON, Made(7, 1, 2))
    assert generations.end(BATCH, 2, Made(1, 1, 1)) == ended
    assert generations.of(BATCH) == (ended,)


def test_one_that_was_cut_short_is_taken_up_by_a_new_token(generations: Generations) -> None:
    first, second = begin(generations), begin(generations)
    assert (second.number, second.tokens[0], len(set(second.tokens))) == (2, first.tokens[0], 2)
    generations.end(BATCH, 2, Made())
    assert begin(generations).number == 3


def test_one_that_failed_has_ended_and_the_next_has_a_number_of_its_own(generations: Generations) -> None:
    generations.fail(begin(generations))
    (failed,) = generations.of(BATCH)
    assert (failed.outcome, failed.ended_at, failed.made) == (GenerationOutcome.FAILED, NOON, Made())
    assert begin(generations).number == 3
    generations.end(BATCH, 3, Made())
    generations.fail(generations.of(BATCH)[1])
    assert generations.of(BATCH)[1].outcome is GenerationOutcome.REPLACED


def test_one_that_was_taken_up_has_not_failed_whichever_of_its_deliveries_says_so(generations: Generations) -> None:
    for delivery in (begin(generations), begin(generations)):
        generations.fail(delivery)
    assert [each.outcome for each in generations.of(BATCH)] == [None], "the other may have put it into the output"


def test_one_for_another_output_is_given_up(generations: Generations) -> None:
    begin(generations)
    other = begin(generations, OTHER)
    assert [(each.number, each.outcome) for each in generations.of(BATCH)] == [
        (2, GenerationOutcome.GIVEN_UP),
        (3, None),
    ]
    assert other.output == OTHER


def test_numbers_go_on_after_what_the_output_has(generations: Generations) -> None:
    assert begin(generations, beyond=5).number == 6
    assert begin(generations, beyond=6).number == 7


def test_a_batch_that_nobody_knows_has_none(generations: Generations) -> None:
    assert generations.of("b9") == ()
    with pytest.raises(StaleError):
        generations.begin("b9", OUTPUT, "ada", "", 1)


def test_a_batch_is_not_pruned_while_a_generation_of_it_is_open_and_goes_with_all_of_them(sqlite_ledger: str) -> None:
    ledger, generations = SqlLedger(sqlite_ledger, now=now), SqlGenerations(sqlite_ledger, now)
    for number in range(2):
        batch = landed(ledger, plan(number))
        ledger.adopt(batch.id, published(batch))
        ledger.close(batch.id, Outcome.COMMITTED)
    later = NOON + timedelta(days=1)
    begin(generations)
    assert ledger.expired("flights", later, 0, 9) == ()
    generations.end(BATCH, 2, Made())
    assert [each.id for each in ledger.expired("flights", later, 0, 9)] == [BATCH]
    assert ledger.forget(BATCH, later)
    assert generations.of(BATCH) == ()


def test_a_batch_was_reprocessed_once_a_generation_may_be_in_its_own_output(generations: Generations) -> None:
    own = plan().output
    assert generations.reprocessed("flights") == ()
    begin(generations, own)
    begin(generations, OTHER)
    generations.end(BATCH, 3, Made())
    assert generations.reprocessed("flights") == (), "the first was given up, and the second is elsewhere"
    assert begin(generations, own).number == 4
    assert generations.reprocessed("flights") == (ReprocessedBatch(BATCH, 4, plan().ranges, is_open=True),)
    generations.end(BATCH, 4, Made())
    begin(generations, OTHER)
    there = ReprocessedBatch(BATCH, 4, plan().ranges)
    assert generations.reprocessed("flights") == (there,)
    assert generations.reprocessed("gates") == ()
    again = begin(generations, own)
    assert generations.reprocessed("flights") == (there, ReprocessedBatch(BATCH, 6, plan().ranges, is_open=True))
    generations.fail(again)
    assert generations.reprocessed("flights") == (there,)
