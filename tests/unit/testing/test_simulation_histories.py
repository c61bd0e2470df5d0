"""Long histories keep the promise, whatever producers do to the topic, and a seed's history is always the same."""

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.steps.commit import Committer
from tidegate.testing.simulation.histories import Dangers, history, topic_events
from tidegate.testing.simulation.script import Begin, Compact, End, Grow, Produce, TopicEvent

pytestmark = pytest.mark.simulation

PARTITIONS = st.integers(0, 3)
EVENTS: st.SearchStrategy[TopicEvent] = st.one_of(
    st.builds(Produce, PARTITIONS, st.integers(1, 3)),
    st.builds(Begin, st.tuples(PARTITIONS, PARTITIONS), st.integers(1, 2)),
    st.builds(End, commit=st.booleans()),
    st.builds(Compact, PARTITIONS, st.integers(0, 5)),
    st.builds(Grow),
)


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_the_promise_holds_for_these_seeds(seed: int) -> None:
    for each in range(seed, seed + 20):
        found = history(each)
        assert found.violation is None, "\n".join([*found.lines, f"seed {each}: {found.violation}"])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), events=st.lists(EVENTS, max_size=12))
def test_the_promise_holds_for_topics_of_all_kinds(seed: int, events: list[TopicEvent]) -> None:
    found = history(seed, (Grow(), *events), Dangers(losses=0, fenceless=False))
    assert found.violation is None, "\n".join([*found.lines, f"seed {seed}: {found.violation}"])


def test_a_history_replays_exactly() -> None:
    for seed in range(20):
        assert history(seed).lines == history(seed).lines


def test_a_history_replays_exactly_in_another_process() -> None:
    command = [sys.executable, "-m", "tidegate.testing.simulation", "--seed", "7"]
    first, again = (subprocess.run(command, capture_output=True, text=True, check=False).stdout for _ in range(2))
    assert "seed 7: " in first
    assert first == again


def test_histories_differ_and_run_into_every_kind_of_mishap() -> None:
    told = "\n".join(line for seed in range(150) for line in history(seed).lines)
    mishaps = ["CRASHES", "can't tell", "ledger is lost", "resets the group", "offsets expire", "finishes late", "pass"]
    assert [each for each in mishaps if each not in told] == []


def test_topics_have_records_transactions_and_gaps() -> None:
    events = [event for seed in range(50) for event in topic_events(random.Random(seed))]  # noqa: S311 (no secret)
    assert {type(event) for event in events} == {Grow, Produce, Begin, End, Compact}


def test_a_violation_comes_with_its_whole_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Committer, "_is_done", lambda *_: False)
    found = next(each for each in map(history, range(500)) if each.violation is not None)
    assert any(line.startswith("runner") for line in found.lines[:9])
    assert str(found.violation)
    assert history(found.seed).lines == found.lines
