from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tidegate.model.batch import Batch, LandedFile, Outcome, Resolution, State
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.errors import TransitionError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))

BATCH = Batch(
    id="b1",
    subscription="flights",
    group="g",
    receipt=Receipt("inc", "b0", 4),
    ranges=(Range("t", 0, 0, 10), Range("t", 1, 3, 3), Range("t", 2, 5, 6)),
    shares=((T0, T1), (T2,), (), (T1,)),
    output="file:///lake/flights",
)

RESOLUTIONS = {
    Resolution.SKIP: Outcome.IGNORED,
    Resolution.DEAD_LETTER: Outcome.DEAD_LETTERED,
    Resolution.RETRY_LATER: Outcome.RETRIED,
}
DONE = {Outcome.COMMITTED, Outcome.UNCOMMITTED}
OPEN = set(State) - {State.CLOSED}

# The way of a batch, and the ways back from a failure; Kafka's word closes it from anywhere, the lake's publishes it.
STEPS = {
    (State.PLANNED, State.LANDED),
    (State.LANDED, State.PROCESSING),
    (State.LANDED, State.FAILED),
    (State.PROCESSING, State.PROCESSING),
    (State.PROCESSING, State.PROCESSED),
    (State.PROCESSING, State.FAILED),
    (State.FAILED, State.PROCESSING),
    (State.FAILED, State.PROCESSED),
    (State.FAILED, State.HELD),
    (State.FAILED, State.DISCARDING),
    (State.HELD, State.FAILED),
    (State.HELD, State.HELD),
    (State.HELD, State.DISCARDING),
    (State.PROCESSED, State.FAILED),
}
FACTS = set(product(OPEN, (State.PUBLISHED, State.CLOSED)))
RESOLVED = {
    **dict.fromkeys((Resolution.STOP, Resolution.ASK), State.HELD),
    **dict.fromkeys(RESOLUTIONS, State.DISCARDING),
    Resolution.REDELIVER: State.FAILED,
}


def in_state(state: State, resolution: Resolution | None = None) -> Batch:
    return replace(BATCH, state=state, resolution=resolution)


@pytest.mark.parametrize(("old", "new"), list(product(State, State)))
def test_only_the_steps_of_the_protocol_are_allowed(old: State, new: State) -> None:
    if (old, new) in STEPS | FACTS:
        assert in_state(old).advanced(new).state is new
    else:
        with pytest.raises(TransitionError, match=f"a batch that is {old} can't become {new} .*batch b1"):
            in_state(old).advanced(new)


@pytest.mark.parametrize(("state", "resolution"), list(product(sorted(OPEN), Resolution)))
def test_a_resolution_is_for_a_batch_that_failed_and_says_where_it_waits(state: State, resolution: Resolution) -> None:
    batch = replace(in_state(state), attempt="a", rows=1, rejected=1)
    if (state, RESOLVED[resolution]) in STEPS:
        found = batch.resolved(resolution, "why")
        assert (found.state, found.resolution, found.reason) == (RESOLVED[resolution], resolution, "why")
        assert (found.attempt, found.rows, found.rejected) == (None, None, None)
    else:
        with pytest.raises(TransitionError):
            batch.resolved(resolution, "why")


def test_who_asks_may_be_told_to_stop_and_not_the_other_way_round() -> None:
    assert in_state(State.HELD, Resolution.ASK).resolved(Resolution.STOP, None).condition == "stopped"
    with pytest.raises(TransitionError, match="a batch that is stopped can't ask any more"):
        in_state(State.HELD, Resolution.STOP).resolved(Resolution.ASK, None)


@pytest.mark.parametrize(("state", "outcome"), list(product(sorted(OPEN - {State.DISCARDING}), Outcome)))
def test_a_batch_ends_committed_or_abandoned_and_empty_only_before_it_landed(state: State, outcome: Outcome) -> None:
    batch = in_state(state)
    if outcome in {*DONE, Outcome.ABANDONED} or (state, outcome) == (State.PLANNED, Outcome.EMPTY):
        found = batch.closed(outcome)
        assert (found.is_open, found.outcome, found.condition) == (False, outcome, outcome)
        assert found.offsets_committed == (outcome in DONE)
    else:
        with pytest.raises(TransitionError, match=f"a batch that is {state} can't be {outcome} .*batch b1"):
            batch.closed(outcome)


@pytest.mark.parametrize(("resolution", "outcome"), list(product(RESOLUTIONS, Outcome)))
def test_a_batch_of_which_nothing_is_published_ends_as_it_was_resolved(
    resolution: Resolution, outcome: Outcome
) -> None:
    batch = in_state(State.DISCARDING, resolution)
    if outcome in (RESOLUTIONS[resolution], Outcome.ABANDONED):
        assert batch.closed(outcome).outcome is outcome
    else:
        with pytest.raises(TransitionError):
            batch.closed(outcome)


@pytest.mark.parametrize("outcome", Outcome)
def test_what_is_closed_stays_as_it_is(outcome: Outcome) -> None:
    closed = replace(BATCH, state=State.CLOSED, outcome=outcome)
    for state in State:
        with pytest.raises(TransitionError):
            closed.advanced(state)
    assert closed.condition == outcome


@pytest.mark.parametrize(
    ("state", "resolution", "outcome", "strategy", "settled"),
    [
        (State.PUBLISHED, None, None, "after-processing", Outcome.COMMITTED),
        (State.PUBLISHED, None, None, "ignore", Outcome.UNCOMMITTED),
        (State.DISCARDING, Resolution.DEAD_LETTER, None, "ignore", Outcome.DEAD_LETTERED),
        (State.DISCARDING, Resolution.RETRY_LATER, None, "latest", Outcome.RETRIED),
        (State.CLOSED, Resolution.SKIP, Outcome.IGNORED, "throttled", Outcome.IGNORED),
        (State.LANDED, None, None, "on-receipt", Outcome.COMMITTED),
    ],
)
def test_a_settled_batch_tells_what_its_output_came_to(
    state: State,
    resolution: Resolution | None,
    outcome: Outcome | None,
    strategy: CommitStrategy,
    settled: Outcome,
) -> None:
    batch = replace(BATCH, state=state, resolution=resolution, outcome=outcome, commit_strategy=strategy)
    assert batch.final_outcome is settled


@pytest.mark.parametrize(
    ("resolution", "word"),
    [
        (Resolution.STOP, "stopped"),
        (Resolution.ASK, "asking"),
        (Resolution.SKIP, "ignoring"),
        (Resolution.DEAD_LETTER, "dead-lettering"),
        (Resolution.RETRY_LATER, "retrying"),
        (Resolution.REDELIVER, "failed"),
    ],
)
def test_people_read_one_word(resolution: Resolution, word: str) -> None:
    assert in_state(RESOLVED[resolution], resolution).condition == word
    assert in_state(State.LANDED).condition == "landed"


def test_a_member_lands_the_ranges_of_its_share_that_hold_something() -> None:
    assert BATCH.share(0) == (Range("t", 0, 0, 10),)
    assert BATCH.share(1) == (Range("t", 2, 5, 6),)
    assert BATCH.share(2) == BATCH.share(3) == ()
    assert BATCH.members_with_work() == (0, 1)


def test_a_batch_moves_if_any_of_its_ranges_holds_an_offset() -> None:
    assert BATCH.moved
    assert not replace(BATCH, ranges=(Range("t", 0, 4, 4),)).moved


def test_records_are_counted_and_not_computed_from_offsets() -> None:
    landed = replace(BATCH, records={T0: 7, T2: 0}, files=(LandedFile("file:///landing/0", 7, 99),))
    assert landed.landed_records == 7
    assert BATCH.landed_records == 0


def test_the_commit_writes_the_next_receipt() -> None:
    assert BATCH.next_receipt == Receipt("inc", "b1", 5)


def test_messages_name_subscription_group_and_batch() -> None:
    assert str(BATCH) == "subscription flights, batch b1"


@pytest.mark.parametrize(
    ("changes", "is_published"),
    [
        ({"state": State.PROCESSED, "rows": 3}, False),
        ({"state": State.PUBLISHED, "rows": 0}, True),
        ({"state": State.CLOSED, "outcome": Outcome.COMMITTED, "rows": 3}, True),
        ({"state": State.CLOSED, "outcome": Outcome.UNCOMMITTED, "rows": 3}, True),
        ({"state": State.CLOSED, "outcome": Outcome.COMMITTED}, False),  # it had no records
        ({"state": State.CLOSED, "outcome": Outcome.ABANDONED, "rows": 3}, False),
        ({"state": State.CLOSED, "outcome": Outcome.IGNORED}, False),
    ],
)
def test_a_batch_is_published_once_it_is_in_the_lake(changes: dict[str, Any], is_published: bool) -> None:
    assert replace(BATCH, **changes).is_published is is_published
