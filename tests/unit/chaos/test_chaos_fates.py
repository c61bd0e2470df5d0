from dataclasses import replace
from itertools import islice
from typing import get_args

import pytest

from chaos.draws import FLIPS, STEPS, Blow, Target, fates, strikes

MANY = 500


def test_a_seed_gives_the_same_sequences_again() -> None:
    assert list(islice(fates(7, 0), MANY)) == list(islice(fates(7, 0), MANY))
    assert list(islice(strikes(7), MANY)) == list(islice(strikes(7), MANY))


@pytest.mark.parametrize(("seed", "runner"), [(8, 0), (7, 1)])
def test_another_seed_and_another_runner_have_others(seed: int, runner: int) -> None:
    assert list(islice(fates(seed, runner), 5)) != list(islice(fates(7, 0), 5))


def test_everything_happens() -> None:
    drawn = list(islice(fates(1, 0), MANY))
    assert {fate.blow for fate in drawn} == set(get_args(Blow))
    assert {fate.skew > 0 for fate in drawn} == {fate.skew < 0 for fate in drawn} == {True, False}
    assert all(fate.apart for fate in drawn if fate.blow in FLIPS)
    assert {(fate.apart, fate.step) for fate in drawn} == {(apart, step) for apart in (True, False) for step in STEPS}


def test_all_servers_are_struck_together_sometimes_and_others_only_if_they_are_there() -> None:
    alone = {strike.targets for strike in islice(strikes(1), MANY)}
    assert alone == {("broker",), ("postgres",), ("postgres", "broker")}
    beside = [target for target in get_args(Target) if target not in ("broker", "postgres")]
    with_all = {strike.targets for strike in islice(strikes(1, beside), MANY)}
    assert with_all - alone == {(target,) for target in beside}


@pytest.mark.parametrize(("every", "numbers"), [(0, []), (3, [3, 6, 9]), (1, list(range(1, 10)))])
def test_each_nth_run_uses_spark(every: int, numbers: list[int]) -> None:
    drawn = islice(fates(1, 0, spark_every=every), 9)
    assert [number for number, fate in enumerate(drawn, 1) if fate.spark] == numbers


def test_whose_runs_take_longer_is_struck_later_and_else_alike() -> None:
    usual, slower = (list(islice(fates(1, 0, slower=times), MANY)) for times in (1, 3))
    assert [3 * fate.after for fate in usual] == pytest.approx([fate.after for fate in slower])
    assert [replace(fate, after=0) for fate in usual] == [replace(fate, after=0) for fate in slower]


@pytest.mark.parametrize("seed", range(50))
def test_the_first_strike_is_one_against_the_broker_or_postgresql(seed: int) -> None:
    first = next(strikes(seed, [target for target in get_args(Target) if target not in ("broker", "postgres")]))
    assert set(first.targets) <= {"broker", "postgres"}
