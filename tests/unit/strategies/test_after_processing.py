from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.batch import Batch
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed
from tidegate.strategies.commit.after_processing import Abandon, AfterProcessing, AlreadyCommitted, Resume

RECEIPT = Receipt("incarnation", None, 0)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def batch(*ranges: Range) -> Batch:
    return Batch(
        id=RECEIPT.batch_after("orders-lake"),
        subscription="orders",
        group="orders-lake",
        receipt=RECEIPT,
        ranges=ranges or (Range("orders", 0, 10, 20), Range("orders", 1, 5, 5)),
        shares=((P0, P1),),
        output="file:///lake",
    )


def at(offset: int, receipt: Receipt) -> Committed:
    return Committed(offset, str(receipt))


BATCH = batch()
reconcile = AfterProcessing().reconcile


def test_positions_at_the_starts_under_the_receipt_of_the_plan_go_on() -> None:
    assert reconcile(BATCH, {P0: at(10, RECEIPT), P1: at(5, RECEIPT)}) == Resume()


def test_positions_at_the_ends_under_the_batchs_own_receipt_are_noted() -> None:
    assert reconcile(BATCH, {P0: at(20, BATCH.next_receipt), P1: at(5, BATCH.next_receipt)}) == AlreadyCommitted()


def test_our_own_commit_that_died_half_way_goes_on() -> None:
    assert reconcile(BATCH, {P0: at(20, BATCH.next_receipt), P1: at(5, RECEIPT)}) == Resume()


def test_a_position_without_a_receipt_abandons_even_if_the_offset_is_the_start() -> None:
    decision = reconcile(BATCH, {P0: Committed(10), P1: at(5, RECEIPT)})
    assert isinstance(decision, Abandon)
    assert "orders-0" in decision.reason
    assert "without a receipt" in decision.reason
    assert "orders-1" not in decision.reason


def test_ends_under_a_receipt_of_another_incarnation_abandon() -> None:
    other = Receipt("another", BATCH.id, 1)
    assert isinstance(reconcile(BATCH, {P0: at(20, other), P1: at(5, other)}), Abandon)


def test_positions_that_vanished_are_nobodys_move() -> None:
    assert reconcile(BATCH, {P1: at(5, RECEIPT)}) == Resume()
    assert reconcile(BATCH, {}) == Resume()
    assert isinstance(reconcile(BATCH, {P1: at(4, RECEIPT)}), Abandon)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=4),
    st.data(),
)
def test_any_mix_of_starts_and_ends_of_ours_can_be_finished(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    ranges = tuple(Range("orders", n, start, start + size) for n, (start, size) in enumerate(sizes))
    planned = batch(*ranges)
    done = [data.draw(st.booleans()) for _ in ranges]
    committed = {
        r.at: at(r.end, planned.next_receipt) if d else at(r.start, planned.receipt)
        for r, d in zip(ranges, done, strict=True)
    }
    assert reconcile(planned, committed) == (AlreadyCommitted() if all(done) else Resume())
