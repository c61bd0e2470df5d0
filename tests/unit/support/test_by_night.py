from by_night import one_in, rows_one_in
from hypothesis import given
from hypothesis import strategies as st


@given(share=st.integers(1, 5), cases=st.lists(st.tuples(st.sampled_from("abc"), st.integers()), min_size=1))
def test_of_each_kind_the_first_and_one_in_so_many_are_for_every_run_and_the_others_for_the_night(share, cases):
    parameters = one_in(share, cases, kind=lambda case: case[0])
    assert [one.values for one in parameters] == [(case,) for case in cases]
    for kind in {kind for kind, _ in cases}:
        nightly = [any(mark.name == "nightly" for mark in one.marks) for one in parameters if one.values[0][0] == kind]
        assert nightly == [place % share != 0 for place in range(len(nightly))]


def test_without_a_kind_all_cases_are_of_one():
    assert [bool(one.marks) for one in one_in(2, "abcd")] == [False, True, False, True]


def test_a_row_has_a_value_for_every_parameter():
    rows = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
    parameters = rows_one_in(2, rows, kind=lambda row: row[0])
    assert [one.values for one in parameters] == rows
    assert [bool(one.marks) for one in parameters] == [False, False, True, False]
