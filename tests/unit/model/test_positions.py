import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.model.offsets import Range, TopicPartition, Watermarks, assign, ends, split_cap, starts

partitions = st.builds(TopicPartition, st.sampled_from(["t0", "t1", "u"]), st.integers(0, 40))
lags = st.one_of(st.dictionaries(partitions, st.integers(0, most), max_size=25) for most in (5, 30, 1000, 2**62))
caps = st.integers(1, 40) | st.integers(1, 1000) | st.integers(1, 2**63 - 1)


def of(*of_partitions: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): lag for number, lag in enumerate(of_partitions)}


# Ranges


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (5, 4)])
def test_a_range_neither_begins_before_0_nor_ends_before_it_begins(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"t-0 \["):
        Range("t", 0, start, end)


def test_a_range_names_its_partition_and_its_offsets() -> None:
    assert str(Range("flights", 2, 0, 500)) == "flights-2 [0, 500)"
    assert Range("flights", 2, 7, 7).is_empty
    assert not Range("flights", 2, 7, 8).is_empty


def test_starts_and_ends_are_by_partition() -> None:
    ranges = [Range("t", 0, 3, 9), Range("t", 1, 4, 4)]
    assert starts(ranges) == of(3, 4)
    assert ends(ranges) == of(9, 4)


@pytest.mark.parametrize(
    ("offset", "is_held", "nearest", "behind"),
    [(99, False, 100, 20), (100, True, 100, 20), (119, True, 119, 1), (120, True, 120, 0), (121, False, 120, 0)],
)
def test_a_group_may_stand_at_what_a_partition_holds_and_at_its_end(
    offset: int, is_held: bool, nearest: int, behind: int
) -> None:
    held = Watermarks(100, 120)
    assert (held.holds(offset), held.nearest(offset), held.behind(offset)) == (is_held, nearest, behind)
    assert str(held) == "[100, 120)"


# The cap


def test_ten_over_101_11_and_1_take_8_1_and_1() -> None:
    assert split_cap(10, of(101, 11, 1)) == of(8, 1, 1)


def test_a_cap_of_100_never_yields_101() -> None:
    assert sum(split_cap(100, of(2000, 3, 4)).values()) == 100


def test_what_rounding_leaves_is_given_out() -> None:
    assert sum(split_cap(11, of(7, 7, 7)).values()) == 11


def test_the_largest_cap_takes_everything() -> None:
    lags = of(2**62, 2**62, 2**62, 1)
    assert sum(split_cap(2**63 - 1, lags).values()) == 2**63 - 1
    assert split_cap(2**63 - 1, of(2**62, 5)) == of(2**62, 5)


def test_one_record_on_one_of_many_partitions_is_taken() -> None:
    lags = of(*[0] * 50, 1, *[0] * 50)
    assert split_cap(500, lags) == {TopicPartition("t", 50): 1}


@given(caps, lags, st.integers(0, 1000))
def test_the_cap_is_used_up_and_no_partition_gives_more_than_it_has(
    cap: int, lags: dict[TopicPartition, int], turn: int
) -> None:
    shares = split_cap(cap, lags, turn)
    assert sum(shares.values()) == min(cap, sum(lags.values()))
    assert all(1 <= share <= lags[at] for at, share in shares.items())


@given(caps, lags)
def test_each_partition_with_records_gives_at_least_one_where_the_cap_allows_it(
    cap: int, lags: dict[TopicPartition, int]
) -> None:
    waiting = {at for at, lag in lags.items() if lag > 0}
    assume(cap >= len(waiting))
    assert split_cap(cap, lags).keys() == waiting


@given(st.integers(1, 30), lags.filter(lambda lags: any(lags.values())), st.integers(0, 1000))
def test_no_partition_starves(cap: int, lags: dict[TopicPartition, int], turn: int) -> None:
    waiting = {at for at, lag in lags.items() if lag > 0}
    turns = range(turn, turn + len(waiting))
    assert {at for turn in turns for at in split_cap(cap, lags, turn)} == waiting


@given(caps, lags, st.integers(0, 1000))
def test_the_split_does_not_depend_on_the_order_of_the_partitions(
    cap: int, lags: dict[TopicPartition, int], turn: int
) -> None:
    assert split_cap(cap, dict(reversed(lags.items())), turn) == split_cap(cap, lags, turn)


@given(
    st.dictionaries(partitions, st.integers(1000, 100_000), min_size=1, max_size=10),
    st.integers(1000, 5000),
)
def test_shares_are_in_proportion_as_far_as_whole_records_go(lags: dict[TopicPartition, int], cap: int) -> None:
    """Where no share had to be rounded up to one."""
    total = sum(lags.values())
    assume(total > cap)
    for at, share in split_cap(cap, lags).items():
        assert lags[at] * cap // total <= share < lags[at] * cap / total + len(lags)


# The assignment


def test_two_members_and_two_topics_of_three_partitions() -> None:
    six = [TopicPartition(topic, number) for topic in ("t0", "t1") for number in range(3)]
    c0, c1 = assign(six, 2)
    assert list(map(str, c0)) == ["t0-0", "t0-1", "t1-0", "t1-1"]
    assert list(map(str, c1)) == ["t0-2", "t1-2"]


def range_assignor(partitions_of: dict[str, int], members: int) -> list[list[TopicPartition]]:
    """As Kafka's RangeAssignor defines it: for each topic, from where and how many, for each consumer."""
    assigned: list[list[TopicPartition]] = [[] for _ in range(members)]
    for topic, count in sorted(partitions_of.items()):
        for i in range(members):
            start = count // members * i + min(i, count % members)
            length = count // members + (0 if i + 1 > count % members else 1)
            assigned[i] += [TopicPartition(topic, number) for number in range(start, start + length)]
    return assigned


@pytest.mark.parametrize(("count", "expected"), [(8, [2, 2, 2, 2]), (10, [2, 2, 3, 3]), (3, [0, 1, 1, 1])])
def test_four_members_share_a_topic_as_oci_streamings_instances_do(count: int, expected: list[int]) -> None:
    shares = assign([TopicPartition("t", number) for number in range(count)], 4)
    assert sorted(map(len, shares)) == expected


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 20)), st.integers(1, 12), st.randoms())
def test_it_is_the_assignment_of_kafkas_range_assignor(
    partitions_of: dict[str, int], members: int, random: object
) -> None:
    everything = [TopicPartition(topic, n) for topic, count in partitions_of.items() for n in range(count)]
    random.shuffle(everything)  # type: ignore[attr-defined]
    assert [list(share) for share in assign(everything, members)] == range_assignor(partitions_of, members)


@given(st.sets(partitions), st.integers(1, 12))
def test_each_partition_has_one_member(some: set[TopicPartition], members: int) -> None:
    shares = assign(sorted(some), members)
    assert len(shares) == members
    assert sorted(at for share in shares for at in share) == sorted(some)
