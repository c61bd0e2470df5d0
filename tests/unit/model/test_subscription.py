"""The values of a subscription."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tidegate.config.reading import load
from tidegate.model.subscription import Problem, TopicPartitions, TopicPattern

FLIGHTS = Path(__file__).parents[3] / "include/subscriptions/flights.yaml"


def test_a_pattern_is_a_full_match():
    pattern = TopicPattern("orders|orders[.]eu")
    assert pattern.takes("orders")
    assert pattern.takes("orders.eu")
    assert not pattern.takes("orders.x")
    assert not pattern.takes("my-orders")
    assert not pattern.takes("orders\n")


def test_a_subscription_cannot_be_changed_and_can_be_a_key():
    subscription = load(FLIGHTS)
    with pytest.raises(FrozenInstanceError):
        subscription.members = 3  # type: ignore[misc]
    assert {subscription: 1}[load(FLIGHTS)] == 1


def test_a_subscription_survives_the_way_to_another_process():
    subscription = load(FLIGHTS)
    assert pickle.loads(pickle.dumps(subscription)) == subscription  # noqa: S301 - our own bytes
    assert copy.deepcopy(subscription) == subscription


def test_chosen_partitions_differ_by_their_numbers():
    assert TopicPartitions({"a": (0, 1)}) == TopicPartitions({"a": (0, 1)})
    assert TopicPartitions({"a": (0, 1)}) != TopicPartitions({"a": (0,)})
    assert hash(TopicPartitions({"a": (0,)})) == hash(TopicPartitions({"a": (0,)}))


def test_a_problem_reads_as_compilers_write_them():
    problem = Problem("members must be a number", "allowed", "members", "x", file="f.yaml", line=3)
    assert str(problem) == "f.yaml:3: error: members must be a number [allowed]"
    assert str(Problem("no such file", "unreadable", file="f.yaml")) == "f.yaml: error: no such file [unreadable]"
