"""Anything that can stand in a file is judged: a subscription or problems, never a traceback."""

import json
import pickle
from collections import Counter
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest
from definition_files import FLIGHTS
from definition_values import document, right, sections
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tidegate.config.property_table import CONSUMER, PROPERTIES, SECTIONS, TOP
from tidegate.config.reading import Reading, read


def names() -> list[str]:
    return [*TOP, *SECTIONS, "urecp-kafka.poll-timeout.ms", "dead-letter-queue.topic", "<<"]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.datetimes()
    | st.sampled_from(
        ["a", "@daily", "* * * * *", "AT_TIME", "fail", "throttled", "s3://b", "file://x", "0x" + "f" * 9999]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from([*CONSUMER, "output", "type", "time"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def judged(path: Path, text: bytes) -> Reading:
    """A subscription or problems, each of which can be shown; never anything else."""
    path.write_bytes(text)
    found = read(path)
    errors = [each for each in found.problems if each.severity == "error"]
    assert (found.subscription is None) == bool(errors)
    assert (found.draft is not None) or errors
    for each in found.problems:
        assert each.message
        assert each.line >= 0
        assert each.rule
        json.dumps(asdict(each), allow_nan=False)
        str(each).encode("utf-8", "backslashreplace")
    if found.subscription is not None:
        hash(found.subscription)
        assert pickle.loads(pickle.dumps(found.subscription)) == found.subscription  # noqa: S301 - our own bytes
    return found


@pytest.mark.long
@FUZZ
@given(document=st.dictionaries(st.sampled_from(names()), VALUES, max_size=8))
def test_any_structure_is_judged_and_never_a_traceback(tmp_path, document):
    stream = StringIO()
    YAML(typ="safe", pure=True).dump(document, stream)
    judged(tmp_path / "flights.yaml", stream.getvalue().encode("utf-8", "surrogatepass"))


MARKS = (
    *":-?&*!|>{}[],#%@`'\" \n\t",
    *("\n", " ", "  ", ": ", "- ", "---", "...", "|2", "\ufeff", "%YAML 1.1\n"),
    *("&a", "*a", "!!int", "!!binary", "!!set", "0x", "1e9", "2026-13-45"),
)
YAMLISH = st.lists(st.sampled_from((*names(), *CONSUMER, *MARKS)) | st.text(max_size=6), max_size=40).map("".join)


@FUZZ
@given(text=YAMLISH.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
@example(text=b"a: !!int x")
@example(text=b"members: !!float x")
@example(text=b"? |\n")
@example(text=b"a: !!timestamp 2026-99-99")
@example(text=b"members: 0x" + b"f" * 9999)
@example(text=b"members: " + b"9" * 9999)
@example(text=b"&a <<: *a\n")
@example(text=b"x: &a\n  <<: *a\n")
@example(text=b"%TAG ! tag:x\n---\na: !b c\n")
@example(text=b"schedule: '0-59/0 * * * *'")
def test_any_text_is_judged_and_never_a_traceback(tmp_path, text):
    judged(tmp_path / "flights.yaml", text)


@FUZZ
@given(insertion=YAMLISH, where=st.integers(0, 900))
def test_a_good_file_with_anything_in_its_midst_is_judged(tmp_path, insertion, where):
    good = FLIGHTS.read_text()
    judged(tmp_path / "flights.yaml", (good[:where] + insertion + good[where:]).encode("utf-8", "surrogatepass"))


def test_a_long_chain_of_merges_is_judged(tmp_path):
    chain = "x0: &a0 {y: 1}\n" + "".join(f"x{i}: &a{i}\n  <<: *a{i - 1}\n" for i in range(1, 2000))
    judged(tmp_path / "flights.yaml", (chain + "<<: *a1999\n").encode())


FOUND_BY_DRAWING = {
    *("allowed", "refused", "required", "given-twice", "no-effect"),
    *("R1", "R2", "R3", "R4", "R5", "R7"),
}


@pytest.mark.long
def test_known_properties_with_right_and_odd_values_are_judged(tmp_path):
    """And enough of what is drawn is right, and enough is wrong in each way, for that to mean something."""
    outcomes: Counter[str] = Counter()

    @settings(max_examples=1500, deadline=None, derandomize=True, database=None)
    @given(drawn=sections())
    def draw(drawn):
        text = json.dumps(document(drawn)).encode()
        found = judged(tmp_path / "flights.yaml", text)
        outcomes["good" if found.subscription is not None else "bad"] += 1
        outcomes.update({each.rule for each in found.problems})

    draw()
    assert outcomes["good"] > 50
    assert outcomes["bad"] > 50
    assert set(outcomes) >= FOUND_BY_DRAWING


@pytest.mark.parametrize(
    ("section", "name"), [(section, name) for section in PROPERTIES for name in PROPERTIES[section]]
)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_what_is_drawn_as_right_is_right(section, name, data):
    """Or is a word that the property knows and that comes with a rule of its own."""
    kind = PROPERTIES[section][name].type
    assert kind.validate(data.draw(right(kind))) in (None, "has an item twice")


LINES = FLIGHTS.read_text().splitlines(keepends=True)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["drop", "double", "swap", "indent", "tab", "anchor"]), st.integers(0, 100)), max_size=4
)


def changed(lines: list[str], how: str, at: int) -> list[str]:
    """The lines with a small accident at one of them."""
    before, line, after = lines[: at % len(lines)], lines[at % len(lines)], lines[at % len(lines) + 1 :]
    match how:
        case "drop":
            return [*before, *after] or [line]
        case "double":
            return [*before, line, line, *after]
        case "swap":
            return [*before, *after[:1], line, *after[1:]]
        case "indent":
            return [*before, f"  {line}", *after]
        case "tab":
            return [*before, line.replace(" ", "\t", 1), *after]
    return [*before, line.replace(": ", ": &a ", 1), "<<: *a\n", *after]


@FUZZ
@given(changes=CHANGES, encoding=st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32", "cp037"]))
def test_a_good_file_with_small_accidents_is_judged(tmp_path, changes, encoding):
    lines = LINES
    for how, at in changes:
        lines = changed(lines, how, at)
    judged(tmp_path / "flights.yaml", "".join(lines).encode(encoding))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x00" * 100,
        b"\t",
        b"a:\tb",
        b"\ta: b",
        b"--- |\n a\n...\n",
        b"%YAML 9.9\n---\na: b\n",
        b"%TAG ! tag:x\n---\na: !b c\n",
        b"members: !!int ''",
        b"members: !!float x",
        b"members: 0o9",
        b"members: 1_000",
        b"members: 1:30",
        b"members: " + b"9" * 9999,
        b"members: 0x" + b"f" * 9999,
        b"members: -.inf",
        b"a: !!timestamp 2026-99-99",
        b"a: !!binary '=='",
        b"a: !!set {b}",
        b"a: !!omap [b: c]",
        b"&a <<: *a\n",
        b"x: &a\n  <<: *a\n",
        b"x: &x {y: *x}\nconsumer: *x\n",
        b"consumer: &c {group.id: g, <<: *c}\n",
        b"? |\n",
        b"? {a: b}\n: c\n",
        b"{" * 5000,
        b"- " * 5000,
        b"a: " * 5000,
        b"deserialization: {value.schema: " + b"{a: " * 60 + b"1" + b"}" * 61,
        b"deserialization: {value.schema: " + b"[" * 5000,
        b"schedule: '0-59/0 * * * *'",
        b"pattern: '" + b"(" * 5000 + b"'",
        b"pattern: 'a{99999999999}'",
        b"cursor: {type: AT_TIME, time: 9999-12-31T23:59:59-23:59}",
        b"cursor: {type: AT_TIME, time: 0001-01-01T00:00:00+23:59}",
    ],
)
def test_what_broke_a_reader_once_is_judged(tmp_path, text):
    assert judged(tmp_path / "flights.yaml", text).problems


def test_a_schema_that_refers_to_itself_over_and_over_is_judged(tmp_path):
    schema = "x0: &a0 {type: object}\n" + "".join(
        f"x{i}: &a{i} {{type: object, properties: {{a: *a{i - 1}, b: *a{i - 1}}}}}\n" for i in range(1, 40)
    )
    least = "topics: [a]\nconsumer: {group.id: g, value.deserializer: json}\nprocessing: {output: out}\n"
    text = f"{schema}{least}deserialization: {{value.schema: *a39}}\n"
    found = judged(tmp_path / "flights.yaml", text.encode())
    (problem,) = [each for each in found.problems if each.property == "deserialization.value.schema"]
    assert "no more than 10000 parts" in problem.message
