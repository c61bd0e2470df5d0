"""SmallRye's `assign-seek`, in a definition."""

import json
import re

import pytest
from definition_files import LEAST, told
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.assign_seek import AssignSeek, Portion, is_given, portions
from tidegate.config.property_types import INT_MAX, LONG_MAX
from tidegate.model.subscription import Cursor, TopicNames, TopicPartitions

BEGINNING, END = Cursor("TRIM_HORIZON"), Cursor("LATEST")


def at(offset: int) -> Cursor:
    return Cursor("AT_OFFSET", offset=offset)


def written(text, topics=()) -> str:
    """The least definition with this `assign-seek` on line 2, and these topics on line 1."""
    selects = f"topics: {json.dumps(topics)}\nassign-seek: {json.dumps(text)}"
    return LEAST.replace("topics: [flights]", selects)


FOUR = {"topic1": {0: at(5), 1: at(6)}, "topic2": {0: at(7), 1: at(8)}}

# AssignSeekConfigTest.checkOffsets, row by row: assign-seek, the topics, partition -> where it starts
SMALLRYE = [
    ("", [], None),
    (" ", [], None),
    (None, [], None),
    (None, ["topic1"], None),
    ("0:5,1:6,2:7,3:8", ["topic1"], {"topic1": {0: at(5), 1: at(6), 2: at(7), 3: at(8)}}),
    ("1,2", ["topic1"], {"topic1": {1: None, 2: None}}),
    ("0", ["topic1"], {"topic1": {0: None}}),
    ("0:-1", ["topic1"], {"topic1": {0: END}}),
    ("0:0", ["topic1"], {"topic1": {0: BEGINNING}}),
    ("topic1:0,topic2:0", ["topic3"], {"topic1": {0: None}, "topic2": {0: None}}),
    ("topic1:0:5,topic1:1:6,topic2:0:7,topic2:1:8", ["topic1", "topic2"], FOUR),
    ("topic1:0:5, topic1:1:6, topic2:0:7, topic2:1:8", [], FOUR),
    ("topic1:0:5,topic1:1:6,topic2:0:7,topic2:1:8", [], FOUR),
]


def selected(expected: dict[str, dict[int, Cursor | None]]) -> TopicPartitions:
    cursors = {topic: {number: start for number, start in each.items() if start} for topic, each in expected.items()}
    partitions = {topic: tuple(sorted(each)) for topic, each in expected.items()}
    return TopicPartitions(partitions, {topic: each for topic, each in cursors.items() if each})


@pytest.mark.parametrize(("text", "topics", "expected"), SMALLRYE)
def test_smallryes_rows_say_what_they_say_there(reading, text, topics, expected):
    found = reading(written(text, topics or None))
    if expected is not None:
        assert found.subscription is not None
        assert found.subscription.topics == selected(expected)
    elif topics:
        assert found.subscription.topics == TopicNames(tuple(topics))
    else:
        assert told(found) == [(1, "", "required")]
        assert found.problems[0].message.endswith("none of them is, nor is assign-seek")


def test_topics_that_are_not_read_are_warned_of_as_smallrye_does(reading):
    for text, topics, expected in SMALLRYE:
        differ = bool(expected and topics) and set(topics) != set(expected)
        found = [(each.property, each.severity) for each in reading(written(text, topics or None)).problems]
        assert (("topics", "warning") in found) == differ
    (problem,) = reading(written("a:0", ["a", "b"])).problems
    assert (problem.line, problem.rule, problem.severity) == (1, "no-effect", "warning")


# AssignSeekConfigTest.checkThrows, row by row: assign-seek, the topics, the portion that is named, our rule
ERRORS = [
    ("abcd", ["topic1", "topic2"], "abcd", "allowed"),
    ("abcd", [], "abcd", "allowed"),
    ("topic1:abcd", [], "topic1:abcd", "allowed"),
    ("0:abcd", [], "0:abcd", "allowed"),
    ("0:5,1:6,2:7,3:8", [], "0:5", "required"),
    ("1:6", ["topic1", "topic2"], "1:6", "required"),
    ("0", [], "0", "required"),
    ("0", ["topic1", "topic2"], "0", "required"),
]


@pytest.mark.parametrize(("text", "topics", "portion", "rule"), ERRORS)
def test_smallryes_errors_are_errors_that_name_property_and_portion(reading, text, topics, portion, rule):
    found = reading(written(text, topics or None))
    (problem,) = found.problems
    assert found.subscription is None
    assert (problem.line, problem.property, problem.rule) == (2, "assign-seek", rule)
    assert problem.message.startswith(f"assign-seek has the portion '{portion}'")
    said = {"allowed": "[<topic>:]<partition>[:<offset>]", "required": f"write <topic>:{portion}"}
    assert said[rule] in problem.message


@pytest.mark.parametrize(
    ("text", "portion"),
    [
        *(("0:1:2:3", "0:1:2:3"), ("a:0:5:7", "a:0:5:7"), ("0:-2", "0:-2"), ("-1", "-1"), ("a:-1", "a:-1")),
        *(("-1:3", "-1:3"), ("0:5,-2:1:7", "-2:1:7")),
        *(("0,", ""), ("0,,1", ""), (",", ""), ("0:", "0:"), (":0", ":0"), ("+5", "+5"), ("٣", "٣")),
        *(
            ("a b:0", "a b:0"),
            ("a/b:0", "a/b:0"),
            (".:0", ".:0"),
            ("..:0:1", "..:0:1"),
            ("0 1", "0 1"),
            ("0 :5", "0 :5"),
        ),
        (f"{'a' * 250}:0", "a" * 200),
        (f"a:{INT_MAX + 1}", str(INT_MAX + 1)),
        (f"a:0:{LONG_MAX}", str(LONG_MAX)),
    ],
)
def test_what_is_no_portion(reading, text, portion):
    (problem,) = reading(written(text, ["flights"])).problems
    assert (problem.property, problem.rule) == ("assign-seek", "allowed")
    assert f"has the portion '{portion}" in problem.message or "number is too large" in problem.message


@pytest.mark.parametrize("value", [True, -1, 0.5, [], ["a:0"], {"a": 0}, INT_MAX + 1])
def test_it_is_text_or_the_number_of_a_partition(value):
    assert AssignSeek().validate(value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("assign-seek: 3", {"flights": {3: None}}),
        ("assign-seek: 0:10", {"flights": {0: at(10)}}),
        ("assign-seek: 2013:1", {"flights": {2013: at(1)}}),
        ("assign-seek: 2013:1:0", {"2013": {1: BEGINNING}}),
        (f"assign-seek: {INT_MAX}:{LONG_MAX - 1}", {"flights": {INT_MAX: at(LONG_MAX - 1)}}),
        ("assign-seek: >\n  flights:1:-1,\n  flights:0\n", {"flights": {0: None, 1: END}}),
        ("assign-seek: |\n  flights:1:-1,\n  flights:0\n", {"flights": {0: None, 1: END}}),
    ],
)
def test_it_may_be_written_without_quotes_and_over_lines(with_lines, line, expected):
    subscription = with_lines(line).subscription
    assert subscription is not None
    assert subscription.topics == selected(expected)


@pytest.mark.parametrize("text", ["0,0", "0:5, 0:6", "flights:0:5,0", "0:5,1,flights:0:5"])
def test_a_partition_is_named_once(with_lines, text):
    found = with_lines(f"assign-seek: {text}")
    assert told(found) == [(4, "assign-seek", "given-twice")]
    assert "partition 0 of flights twice" in found.problems[0].message


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        ("pattern: fl.*", "pattern"),
        ("partitions: {flights: [1]}", "partitions"),
        ("partitions: {flights: [0]}", "partitions"),
        ("topics: [flights]\npattern: fl.*", "pattern"),
        ("pattern: fl.*\npartitions: {flights: [1]}", "pattern and partitions"),
    ],
)
def test_it_stands_beside_topics_only(reading, lines, others):
    (problem,) = reading(LEAST.replace("topics: [flights]", f"assign-seek: flights:0\n{lines}")).problems
    assert (problem.line, problem.property, problem.rule) == (1, "assign-seek", "required")
    assert f"can't stand beside {others}:" in problem.message


@pytest.mark.parametrize("other", ["pattern: fl.*", "partitions: {flights: [1]}"])
def test_a_blank_one_says_nothing_beside_any_selection(reading, other):
    assert reading(LEAST.replace("topics: [flights]", f"{other}\nassign-seek: ' '")).problems == ()


@pytest.mark.parametrize("topics", ["topics: flights", "topics: [a/b]"])
def test_nothing_is_concluded_from_topics_that_are_wrong(reading, topics):
    found = reading(LEAST.replace("topics: [flights]", f"{topics}\nassign-seek: 0"))
    assert told(found) == [(1, "topics", "allowed")]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("0:5,1:-1", [(5, "cursor", "refused")]),
        ("0:5,1", []),
        ("0,1", []),
        ("' '", []),
    ],
)
def test_a_cursor_is_for_partitions_without_an_offset(with_lines, text, problems):
    found = with_lines(f"assign-seek: {text}\ncursor: {{type: AT_OFFSET, offset: 3}}\n")
    assert told(found) == problems


def test_a_dead_letter_topic_in_it_is_refused_under_its_name(reading):
    text = written("dead:0") + "failure-strategy: dead-letter-queue\ndead-letter-queue.topic: dead\n"
    (problem,) = reading(text.replace("topics: []\n", "")).problems
    assert (problem.property, problem.rule) == ("assign-seek", "own-topic")


@pytest.mark.parametrize(
    ("text", "reset", "rules"),
    [
        ("0:5", "none", []),
        ("0:5", "latest", []),
        ("0:5,1", "latest", [("reads-only-new", "warning")]),
        ("0:5,1", "none", [("required", "error")]),
        ("0:5,1:-1", "earliest", [("reads-only-new", "warning")]),
        ("0,1", "earliest", []),
        ("0:x", "latest", [("allowed", "error")]),
    ],
)
def test_ignore_starts_each_run_where_it_says(reading, text, reset, rules):
    definition = LEAST.replace("group.id: g", f"group.id: g, auto.offset.reset: {reset}")
    found = reading(f"{definition}commit-strategy: ignore\nassign-seek: {text}\n")
    assert [(each.rule, each.severity) for each in found.problems] == rules


NAMES = st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z").filter(lambda name: not re.fullmatch(r"\.{1,2}|-[0-9]+", name))
PARTITIONS, OFFSETS = st.integers(0, INT_MAX), st.integers(-1, LONG_MAX - 1)
PORTIONS = st.one_of(
    st.builds(Portion, st.none() | NAMES, PARTITIONS, OFFSETS),
    st.builds(Portion, st.none() | NAMES.filter(lambda name: not name.isdigit()), PARTITIONS, st.none()),
)


@given(drawn=st.lists(PORTIONS, min_size=1, max_size=5), comma=st.sampled_from([",", ", ", "\n,\t"]))
def test_what_is_written_is_read_again(drawn, comma):
    text = comma.join(map(str, drawn))
    assert AssignSeek().validate(text) is None
    assert portions(text) == tuple(drawn)


@given(text=st.text(st.sampled_from("ab01:,-. \n٣"), max_size=12))
def test_what_may_stand_is_read_and_what_may_not_is_not(text):
    if AssignSeek().validate(text) is None:
        read = portions(text)
        assert portions(", ".join(map(str, read))) == read
        assert bool(read) == is_given(text)
    else:
        with pytest.raises(ValueError, match="isn't"):
            portions(text)


def test_a_selection_differs_by_its_starts():
    assert selected({"a": {0: at(5)}}) != selected({"a": {0: at(6)}})
    assert hash(selected({"a": {0: at(5)}})) == hash(selected({"a": {0: at(5)}}))
