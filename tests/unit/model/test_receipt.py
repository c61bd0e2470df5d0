import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.receipt import Receipt

words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)
receipts = st.builds(Receipt, words, st.none() | words.filter(lambda word: word != "-"), st.integers(0, 2**63))


@given(receipts)
def test_a_receipt_survives_the_offsets_metadata(receipt: Receipt) -> None:
    assert Receipt.parse(str(receipt)) == receipt


@pytest.mark.parametrize(
    "foreign",
    [
        None,
        "",
        "tidegate1",
        "tidegate1 inc -",
        "tidegate1 inc - x",
        "tidegate1 inc - -1",
        "tidegate1  - 0",
        "tidegate2 inc - 0",
        "tidegate1 inc - 0 more",
        " tidegate1 inc - 0",
    ],
)
def test_what_others_write_is_no_receipt(foreign: str | None) -> None:
    assert Receipt.parse(foreign) is None


@given(st.text(max_size=60))
def test_any_metadata_can_be_read(metadata: str) -> None:
    receipt = Receipt.parse(metadata)
    assert receipt is None or receipt.incarnation


def test_each_incarnation_is_another() -> None:
    assert len({Receipt.first().incarnation for _ in range(100)}) == 100


@given(receipts, words)
def test_the_next_receipt_stays_in_the_incarnation_and_counts_on(receipt: Receipt, batch_id: str) -> None:
    after = receipt.next(batch_id)
    assert (after.incarnation, after.batch_id, after.number) == (receipt.incarnation, batch_id, receipt.number + 1)


@given(receipts, words)
def test_the_same_receipt_plans_the_same_batch(receipt: Receipt, group: str) -> None:
    batch_id = receipt.batch_after(group)
    again = Receipt(receipt.incarnation, receipt.batch_id, receipt.number)
    assert again.batch_after(group) == batch_id
    assert re.fullmatch("b[0-9a-f]{20}", batch_id)


@given(st.sets(receipts, min_size=2, max_size=3), st.sets(words, min_size=2, max_size=3))
def test_another_receipt_or_group_plans_another_batch(some: set[Receipt], groups: set[str]) -> None:
    planned = [receipt.batch_after(group) for receipt, group in product(some, groups)]
    assert len(set(planned)) == len(planned)


def test_every_commit_plans_another_batch() -> None:
    receipt, planned = Receipt.first(), []
    for _ in range(5):
        planned.append(receipt.batch_after("g"))
        receipt = receipt.next(planned[-1])
    assert len(set(planned)) == 5
