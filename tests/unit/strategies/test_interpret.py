from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.batch import Batch
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, CommitStrategy, PositionStore
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.strategies.commit.interpret import (
    AlreadyCommitted,
    Interpretation,
    Moved,
    OffsetsCommitted,
    Resume,
    ResumeFrom,
    interpret,
)

RECEIPT = Receipt("incarnation", "b0", 7)
PAST = Receipt("incarnation", "b1", 3)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)

IN_PARTS = [name for name, policy in COMMIT_POLICIES.items() if policy.commits_acknowledged]
ON_LANDING = [name for name, policy in COMMIT_POLICIES.items() if policy.commit_at is CommitPoint.LANDED]
KEPT = [name for name, policy in COMMIT_POLICIES.items() if policy.store is not PositionStore.NONE]
WHOLE = [name for name in KEPT if name not in (*IN_PARTS, *ON_LANDING)]


def batch(*ranges: Range, strategy: CommitStrategy = "after-processing", offsets_committed: bool = False) -> Batch:
    return Batch(
        id=RECEIPT.batch_after("orders-lake"),
        subscription="orders",
        group="orders-lake",
        receipt=RECEIPT,
        ranges=ranges or (Range("orders", 0, 10, 20), Range("orders", 1, 5, 5)),
        shares=((P0, P1),),
        output="file:///lake",
        commit_strategy=strategy,
        offsets_committed=offsets_committed,
    )


BATCH = batch()
NEXT = BATCH.next_receipt
FOREIGN = Receipt("another", BATCH.id, 1)  # with a number that would be of the past


def at(offset: int, receipt: Receipt) -> Committed:
    return Committed(offset, str(receipt))


def found(strategy: CommitStrategy, of: Batch, committed: Mapping[TopicPartition, Committed]) -> Interpretation:
    return interpret(COMMIT_POLICIES[strategy], of, committed)


def test_there_are_strategies_of_each_kind() -> None:
    assert all((WHOLE, ON_LANDING, IN_PARTS, set(COMMIT_POLICIES) - set(KEPT)))


@pytest.mark.parametrize("strategy", KEPT)
@pytest.mark.parametrize(
    "committed",
    [
        {P0: at(10, RECEIPT), P1: at(5, RECEIPT)},
        {P0: at(20, NEXT), P1: at(5, RECEIPT)},
        {P1: at(5, RECEIPT)},
        {},
        {P0: at(3, PAST), P1: at(2, PAST)},
        {P0: at(3, PAST), P1: at(5, RECEIPT)},
        {P0: at(20, NEXT), P1: at(2, PAST)},
    ],
    ids=[
        "at the starts",
        "our own commit died half-way",
        "one position vanished",
        "all positions vanished",
        "before an earlier commit of ours",
        "one before an earlier commit of ours",
        "one at its end, one before an earlier commit",
    ],
)
def test_what_our_own_commits_leave_is_gone_on_from(
    strategy: CommitStrategy, committed: Mapping[TopicPartition, Committed]
) -> None:
    assert found(strategy, BATCH, committed) == Resume()


@pytest.mark.parametrize("strategy", [*WHOLE, *IN_PARTS])
def test_positions_at_the_ends_by_the_batchs_own_commit_mean_that_it_is_committed(strategy: CommitStrategy) -> None:
    assert found(strategy, BATCH, {P0: at(20, NEXT), P1: at(5, NEXT)}) == AlreadyCommitted()


@pytest.mark.parametrize("strategy", KEPT)
def test_a_position_without_a_receipt_abandons_even_if_the_offset_is_the_start(strategy: CommitStrategy) -> None:
    stands = found(strategy, BATCH, {P0: Committed(10), P1: at(5, RECEIPT)})
    assert isinstance(stands, Moved)
    assert stands.reason.startswith("the group was moved by somebody else: orders-0 was planned as [10, 20)")
    assert "stands at 10 without a receipt of ours" in stands.reason
    assert "orders-1" not in stands.reason


@pytest.mark.parametrize("strategy", KEPT)
def test_a_commit_of_another_batch_of_ours_abandons_saying_so(strategy: CommitStrategy) -> None:
    stands = found(strategy, BATCH, {P0: at(20, FOREIGN), P1: at(5, FOREIGN)})
    assert isinstance(stands, Moved)
    assert stands.reason.startswith("the group has gone on without it: orders-0")


@pytest.mark.parametrize("strategy", [*WHOLE, *ON_LANDING])
def test_a_position_within_a_batch_that_is_committed_whole_abandons_it(strategy: CommitStrategy) -> None:
    assert isinstance(found(strategy, BATCH, {P0: at(13, RECEIPT), P1: at(5, RECEIPT)}), Moved)


@given(st.sampled_from(KEPT), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1), st.data())
def test_any_mix_of_starts_and_ends_of_ours_can_be_finished(
    strategy: CommitStrategy, sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    planned = batch(*(Range("orders", n, start, start + size) for n, (start, size) in enumerate(sizes)))
    done = [data.draw(st.booleans()) for _ in planned.ranges]
    committed = {
        r.at: at(r.end, planned.next_receipt) if d else at(r.start, planned.receipt)
        for r, d in zip(planned.ranges, done, strict=True)
    }
    whole = OffsetsCommitted() if strategy in ON_LANDING else AlreadyCommitted()
    assert found(strategy, planned, committed) == (whole if all(done) else Resume())


PARTLY: Mapping[str, tuple[Mapping[TopicPartition, Committed], Mapping[TopicPartition, int]]] = {
    "in part": ({P0: at(13, RECEIPT), P1: at(5, RECEIPT)}, {P0: 13, P1: 5}),
    "in part, the other position vanished": ({P0: at(13, RECEIPT)}, {P0: 13, P1: 5}),
    "all acknowledged, not yet ended": ({P0: at(20, RECEIPT), P1: at(5, RECEIPT)}, {P0: 20, P1: 5}),
    "past the end, of one that had more": ({P0: at(21, RECEIPT), P1: at(5, RECEIPT)}, {P0: 21, P1: 5}),
    "in part, the other before an earlier commit": ({P0: at(13, RECEIPT), P1: at(2, PAST)}, {P0: 13, P1: 5}),
    "in part, under the batch's own receipt": ({P0: at(13, NEXT), P1: at(5, NEXT)}, {P0: 13, P1: 5}),
}


@pytest.mark.parametrize("strategy", IN_PARTS)
@pytest.mark.parametrize("name", PARTLY)
def test_what_we_committed_of_a_batch_in_part_is_gone_on_from(strategy: CommitStrategy, name: str) -> None:
    committed, positions = PARTLY[name]
    assert found(strategy, BATCH, committed) == ResumeFrom(positions)


@pytest.mark.parametrize("strategy", IN_PARTS)
@pytest.mark.parametrize(
    "position",
    [Committed(10), Committed(13), at(13, FOREIGN), at(20, FOREIGN), at(9, RECEIPT), at(9, NEXT), at(21, NEXT)],
)
def test_whatever_isnt_ours_abandons_naming_it_alone(strategy: CommitStrategy, position: Committed) -> None:
    partly = batch(Range(*P0, 10, 20), Range(*P1, 0, 9))
    stands = found(strategy, partly, {P0: position, P1: at(5, RECEIPT)})
    assert isinstance(stands, Moved)
    assert f"orders-0 was planned as [10, 20) and stands at {position.offset}" in stands.reason
    assert "orders-1" not in stands.reason


@given(
    st.sampled_from(IN_PARTS),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=4),
    st.data(),
)
def test_any_partial_commits_of_ours_can_be_gone_on_from(
    strategy: CommitStrategy, sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    ranges = tuple(Range("orders", n, start, start + size) for n, (start, size) in enumerate(sizes))
    stands = {r.at: data.draw(st.integers(r.start, r.end)) for r in ranges}
    interpreted = found(strategy, batch(*ranges), {tp: at(offset, RECEIPT) for tp, offset in stands.items()})
    assert interpreted == (Resume() if all(stands[r.at] == r.start for r in ranges) else ResumeFrom(stands))


@pytest.mark.parametrize("strategy", ON_LANDING)
@pytest.mark.parametrize("other", [at(5, NEXT), Committed(3), at(7, FOREIGN)], ids=["its end", "reset", "gone on"])
def test_offsets_that_were_committed_on_landing_stay_committed_wherever_others_move_some(
    strategy: CommitStrategy, other: Committed
) -> None:
    assert found(strategy, BATCH, {P0: at(20, NEXT), P1: other}) == OffsetsCommitted()


@pytest.mark.parametrize("strategy", ON_LANDING)
def test_once_offsets_are_committed_on_landing_the_positions_mean_nothing_for_the_batch(
    strategy: CommitStrategy,
) -> None:
    assert found(strategy, batch(offsets_committed=True), {P0: Committed(0), P1: at(99, FOREIGN)}) == Resume()


def test_where_nothing_is_kept_the_positions_mean_nothing() -> None:
    assert found("ignore", BATCH, {P0: Committed(0), P1: at(99, FOREIGN)}) == Resume()
