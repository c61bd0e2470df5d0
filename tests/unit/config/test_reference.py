"""The generated reference page, and the hand-written pages for those who come from other systems."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tidegate.cli.app import app
from tidegate.config import consumer_properties
from tidegate.config.check import examine
from tidegate.config.property_table import ALIASES, KAFKA, PROPERTIES
from tidegate.config.property_types import LONG_MAX, Choice
from tidegate.config.reading import read
from tidegate.config.reference import reference

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(DOCS.glob("coming-from-*.md"))
EXAMPLE = re.compile(r"```yaml\n(# include/subscriptions/(?P<name>[a-z-]+\.yaml)\n.*?)```", re.DOTALL)


def test_the_page_is_current():
    assert (DOCS / "subscription-reference.md").read_text("utf-8") == reference(), "run make docs"


@pytest.mark.parametrize("section", list(PROPERTIES))
def test_every_property_is_on_the_page_with_its_values_default_and_unit(section):
    heading = f"## Under `{section}`" if section else "## At the top level"
    part = reference().partition(f"{heading}\n")[2].partition("\n## ")[0]
    for name, known in PROPERTIES[section].items():
        (shown,) = [line for line in part.splitlines() if line.startswith(f"- `{name}` (")]
        line = shown.replace("**", "")
        assert line.startswith(f"- `{name}` ({known.type.allowed().words}")
        if known.type.unit == "milliseconds" and not name.endswith(".ms"):
            assert f"{known.type.allowed().words} milliseconds; " in line
        assert known.required == ("; required): " in line)
        if isinstance(known.default, (int, str)) and known.default != "":
            written = str(known.default).lower() if isinstance(known.default, bool) else known.default
            assert f"**`{written}`**" in shown


@pytest.mark.parametrize("section", list(PROPERTIES))
def test_the_page_says_of_a_property_what_editors_say_or_where_it_is_told(section):
    heading = f"## Under `{section}`" if section else "## At the top level"
    part = reference().partition(f"{heading}\n")[2].partition("\n## ")[0]
    for name, known in PROPERTIES[section].items():
        before, _, line = part.partition(f"\n- `{name}` (")
        line = line.partition("\n")[0]
        if known.see == KAFKA:
            assert line.endswith(")")
            assert f"\n\nAs in {KAFKA}:\n" in f"{before}\n"
        elif known.see:
            assert line.endswith(f"): {known.text.partition('. ')[0].rstrip('.')}; see {known.see}.")
        else:
            head, _, rest = known.text.partition(": ")
            first = before.rpartition("\n\n")[2].partition("\n")[0]
            said = rest if first == f"{head}:" else known.text
            assert line.lower().endswith(f"): {said.lower()}")


def test_every_name_that_is_refused_or_an_alias_is_on_the_page():
    page = reference()
    for name in (*consumer_properties.REFUSED, *ALIASES):
        assert re.search(rf"`(consumer\.)?{re.escape(name)}`", page), name
    for family in consumer_properties.REFUSED_FAMILIES:
        assert f"`{family}*`" in page
    for other in PAGES:
        assert f"({other.name})" in page  # what its other names are here, an error says: see test_foreign_properties.py
    for rule in ("R1", "R2", "R3", "R4", "R5", "R7"):
        assert f"\n- {rule} (" in page


def test_the_largest_number_is_written_out():
    assert str(LONG_MAX) in reference()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_of_a_page_is_a_definition_without_a_problem(page, tmp_path):
    examples = list(EXAMPLE.finditer(page.read_text("utf-8")))
    assert examples
    for example in examples:
        path = tmp_path / example["name"]
        path.write_text(example[1], "utf-8")
        assert [str(problem) for problem in read(path).problems] == []
        assert read(path).subscription is not None


def test_each_of_the_other_systems_has_a_page():
    assert [page.stem.removeprefix("coming-from-") for page in PAGES] == [
        "hitachi",
        "oci-streaming",
        "queue-over-http",
        "smallrye",
    ]


STRATEGIES = DOCS / "strategies.md"
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def _skips_what_is_there(subscription: Any) -> bool:
    return subscription.cursor is None and subscription.consumer.auto_offset_reset == "latest"


def test_the_examples_of_the_strategies_are_taken_together(tmp_path):
    text = STRATEGIES.read_text("utf-8")
    examples = list(EXAMPLE.finditer(text))
    assert len(examples) == len(BLOCK.findall(text))
    for example in examples:
        (tmp_path / example["name"]).write_text(example[1], "utf-8")
    report = examine([tmp_path], tmp_path)
    assert [str(problem) for problem in report.problems] == []
    assert len(report.subscriptions) == len(examples)
    at_the_end = [each.name for each in report.subscriptions if _skips_what_is_there(each)]
    assert at_the_end == []


@pytest.mark.parametrize("name", ["commit-strategy", "failure-strategy"])
def test_each_strategy_has_its_section_and_is_taken_by_the_example_of_its_own_or_of_the_page(name, tmp_path):
    text = STRATEGIES.read_text("utf-8")
    (common,) = EXAMPLE.finditer(text.partition("\n## ")[0])
    heading = f"## {name.capitalize().replace('-strategy', ' strategies')}\n"
    part = text.partition(heading)[2].partition("\n## ")[0]
    sections = re.split(r"^### `([a-z-]+)`\n", part, flags=re.MULTILINE)[1:]
    assert tuple(sections[::2]) == PROPERTIES[""][name].type.words
    for word, section in zip(sections[::2], sections[1::2], strict=True):
        assert "- **Promises**" in section
        assert "- **Doesn't**" in section
        own = list(EXAMPLE.finditer(section))
        assert len(own) <= 1
        (example,) = own or [common]
        written = example[1] if own else re.sub(rf"(?m)^{name}: .*", f"{name}: {word}", example[1])
        path = tmp_path / example["name"]
        path.write_text(written, "utf-8")
        assert [str(problem) for problem in read(path).problems] == []
        assert getattr(read(path).subscription, name.replace("-", "_")) == word


def test_the_list_of_choices_names_only_strategies():
    pairs = re.findall(r"^- [^`]+: `([a-z-]+)`, `([a-z-]+)`$", STRATEGIES.read_text("utf-8"), re.MULTILINE)
    words = [PROPERTIES[""][name].type.words for name in ("commit-strategy", "failure-strategy")]
    assert len(pairs) > 8
    assert all(commit in words[0] and failure in words[1] for commit, failure in pairs)
    assert {failure for _, failure in pairs} == set(words[1])


def is_ours(word: str) -> bool:
    """A property's whole name, a choice, or a command."""
    names = {f"{section}.{name}".lstrip(".") for section, known in PROPERTIES.items() for name in known}
    choices = [each.type for known in PROPERTIES.values() for each in known.values() if isinstance(each.type, Choice)]
    words = {word for kind in choices for word in kind.words}
    return word in {*names, *words, *PROPERTIES, *ALIASES, "tidegate", *commands(get_command(app))}


THEIRS = re.compile(r"```\w+ elsewhere\n(.*?)```", re.DOTALL)
KEY = re.compile(r"""^\s*([\w.-]+)=|"([\w.-]+)":|(?<=[( ])(\w+)(?=, cursor)""", re.MULTILINE)
"""A name in an example of another system: of properties or of Python's arguments, of JSON, or the SDK's stream_id."""
TERM = re.compile(r"^- ([^→\n]+) → ", re.MULTILINE)
CAMEL = re.compile(r"\b[a-z]+[A-Z]\w*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_as_theirs_is_known_here_or_explained(page, with_lines):
    text = page.read_text("utf-8")
    (example,) = THEIRS.findall(text)
    theirs = {name for found in KEY.findall(example) for name in found if name}
    theirs |= {name for term in TERM.findall(text) for name in CAMEL.findall(term)}
    assert len(theirs) > 5
    unexplained = [
        problem.message
        for name in sorted(theirs)
        for problem in with_lines(f"{name}: 1").problems
        if problem.message.startswith(f"{name} isn't a property") and problem.message[-10:] == "a property"
    ]
    assert unexplained == []


def commands(group: Any) -> set[str]:
    """The names of all commands of the command line."""
    below = getattr(group, "commands", {})
    return {name for each, command in below.items() for name in (each, *commands(command))}


MAPPED = re.compile(r"(?:^|(?<= ))- ([^→]+?) → ((?:`[^`]*`|[^`:→])+?)(?=:| - |$| ##)")
"""What another system has, and what it is here."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_as_ours_is_ours(page):
    theirs_and_ours = MAPPED.findall(" ".join(page.read_text("utf-8").split()))
    codes = [
        code
        for theirs, ours in theirs_and_ours
        for code in re.findall(r"`([^`]+)`", theirs if ours == "the same" and theirs.startswith("`") else ours)
    ]
    named = [word for code in codes for word in re.split(r"[: ]+", code)]
    assert len(named) > 10
    assert [word for word in named if not is_ours(word)] == []
