from dataclasses import replace
from itertools import product

import pytest

from tidegate.model.batch import Batch, LandedFile, State, advance
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

GIVEN_UP = {
    State.IGNORING: State.IGNORED,
    State.DEAD_LETTERING: State.DEAD_LETTERED,
    State.RETRYING: State.RETRIED,
}
DONE = {State.COMMITTED, State.UNCOMMITTED}
CLOSED = {*DONE, *GIVEN_UP.values(), State.EMPTY, State.ABANDONED}

# The way of a batch, and the ways back from a failure; Kafka's word ends it from anywhere, the lake's publishes it.
STEPS = {
    (State.PLANNED, State.LANDED),
    (State.PLANNED, State.EMPTY),
    (State.LANDED, State.PROCESSING),
    (State.LANDED, State.FAILED),
    (State.PROCESSING, State.PROCESSING),
    (State.PROCESSING, State.PROCESSED),
    (State.PROCESSING, State.FAILED),
    (State.FAILED, State.PROCESSING),
    (State.FAILED, State.PROCESSED),
    (State.PROCESSED, State.FAILED),
    (State.FAILED, State.STOPPED),
    (State.FAILED, State.ASKING),
    (State.STOPPED, State.FAILED),
    (State.ASKING, State.FAILED),
    (State.ASKING, State.STOPPED),
    *product((State.FAILED, State.STOPPED, State.ASKING), GIVEN_UP),
}
ENDS = {
    (state, end)
    for state in set(State) - CLOSED
    for end in (State.ABANDONED, *([GIVEN_UP[state]] if state in GIVEN_UP else DONE))
}
FACTS = {(state, State.PUBLISHED) for state in set(State) - CLOSED}


@pytest.mark.parametrize(("old", "new"), list(product(State, State)))
def test_only_the_steps_of_the_protocol_are_allowed(old: State, new: State) -> None:
    if (old, new) in STEPS | ENDS | FACTS:
        assert advance("b1", old, new) is new
    else:
        with pytest.raises(TransitionError, match=f"a batch that is {old} can't become {new} .batch b1"):
            advance("b1", old, new)


@pytest.mark.parametrize("state", State)
def test_a_batch_is_open_until_its_offsets_are_committed_or_it_is_empty_or_abandoned(state: State) -> None:
    assert state.is_open == (state not in CLOSED)


@pytest.mark.parametrize(
    ("state", "strategy", "settled"),
    [
        (State.PUBLISHED, "after-processing", State.COMMITTED),
        (State.PUBLISHED, "ignore", State.UNCOMMITTED),
        (State.DEAD_LETTERING, "ignore", State.DEAD_LETTERED),
        (State.RETRYING, "latest", State.RETRIED),
        (State.IGNORED, "throttled", State.IGNORED),
        (State.LANDED, "on-receipt", State.COMMITTED),
    ],
)
def test_a_settled_batch_tells_what_its_output_came_to(state: State, strategy: CommitStrategy, settled: State) -> None:
    assert replace(BATCH, state=state, commit_strategy=strategy).final_state is settled


def test_a_published_batch_never_goes_back() -> None:
    allowed = {new for new in State if (State.PUBLISHED, new) in STEPS | ENDS}
    assert allowed <= CLOSED


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
