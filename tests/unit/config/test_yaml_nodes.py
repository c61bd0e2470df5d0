"""The tree of nodes of a YAML text, and its words' meaning in YAML 1.2's core schema."""

import math

import pytest

from tidegate.config.findings import Findings
from tidegate.config.yaml_graph import Graph
from tidegate.config.yaml_nodes import DEEPEST, MappingNode, ScalarNode, SequenceNode, YamlError, compose


@pytest.fixture
def value(tmp_path):
    def meant(text: str) -> object:
        path = tmp_path / "a.yaml"
        path.write_text(text, encoding="utf-8")
        graph = Graph(Findings("a.yaml"))
        root = graph.compose(path)
        assert root is not None
        return graph.section(root, "")["a"]

    return meant


def test_nodes_have_the_lines_that_they_start_on():
    root = compose("# first\na: 1\nb:\n- x\n- {c: 'y'}\n")
    assert isinstance(root, MappingNode)
    assert root.line == 2
    (a, one), (b, items) = root.pairs
    assert isinstance(items, SequenceNode)
    assert [each.line for each in (a, one, b, items, *items.items)] == [2, 2, 3, 4, 4, 5]


def test_plain_words_are_told_from_quoted_ones():
    root = compose("[1, '1', !!str 1]")
    assert isinstance(root, SequenceNode)
    assert [(each.text, each.plain) for each in root.items if isinstance(each, ScalarNode)] == [
        ("1", True),
        ("1", False),
        ("1", False),
    ]


def test_an_alias_is_the_node_that_it_refers_to():
    root = compose("a: &x [1]\nb: *x\n")
    assert isinstance(root, MappingNode)
    assert root.pairs[0][1] is root.pairs[1][1]


def test_a_node_may_contain_itself():
    root = compose("&x [*x]")
    assert isinstance(root, SequenceNode)
    assert root.items == [root]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n..."])
def test_without_a_document_there_is_nothing_or_null(text):
    node = compose(text)
    assert node is None or (isinstance(node, ScalarNode) and node.text == "")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: [", 1, "flow node"),
        ("a: [\n", 2, "flow node"),
        ("a: 1\n b: 2\n", 2, "mapping values"),
        ("a: *x\n", 1, "nothing has the anchor x"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("a: 'x\n", 2, "quoted scalar"),
        ("a: \x07\n", 0, "not valid YAML"),
        ("%YAML 3.0\n---\na: 1\n", 1, "incompatible"),
    ],
)
def test_what_is_not_yaml_is_told_with_its_line(text, line, said):
    with pytest.raises(YamlError) as caught:
        compose(text)
    assert caught.value.line == line
    assert said in caught.value.message


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? ", "!!seq ["])
def test_a_text_that_is_nested_endlessly_is_refused_soon(opening):
    with pytest.raises(YamlError, match="nested too deeply"):
        compose(opening * 100_000)


def test_a_text_may_be_nested_as_deeply_as_anybody_writes():
    assert compose("[" * DEEPEST + "]" * DEEPEST) is not None
    with pytest.raises(YamlError):
        compose("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("off", "off"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("010", 10),
        ("0o10", 8),
        ("0xff", 255),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("2026-01-31", "2026-01-31"),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("9" * 5000, "9" * 5000),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!int x", "x"),
        ("! 12", "12"),
        ("|\n  x\n  y\n", "x\ny\n"),
        ("[1, {b: c}]", [1, {"b": "c"}]),
    ],
)
def test_words_mean_what_yaml_1_2_says(value, text, meant):
    assert value(f"a: {text}\n") == meant


def test_not_a_number(value):
    assert math.isnan(value("a: .nan\n"))


@pytest.mark.parametrize(
    ("text", "line", "helps"),
    [
        ("a: 1\nschedule: */5 * * * *\n", 2, "quote a value that begins with *, as in '*/5 * * * *'"),
        ("a:\n\tb: 1\n", 2, "a line begins with a tab: indent by spaces"),
        ("a: @lake\n", 1, "quote a value that begins with @"),
        ("a: `lake`\n", 1, "quote a value that begins with `"),
        ("a: & b\n", 1, "quote a value that begins with &"),
        ("a: it: breaks\n", 1, "quote a value that has a colon and a space in it"),
        ('a: 1\nb: "c\nd: e\n', 4, "line 2 opens a quote that isn't closed"),
        ("a:\n  b: 1\n c: 2\n", 3, "this line isn't indented as those that it belongs to"),
    ],
)
def test_the_slips_that_are_made_most_are_explained(text, line, helps):
    with pytest.raises(YamlError) as caught:
        compose(text)
    assert (caught.value.line, helps in caught.value.message) == (line, True), caught.value.message
