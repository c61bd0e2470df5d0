from pathlib import Path
from typing import get_args

import pytest

from chaos.command import main
from chaos.kinds import KINDS, MANY, PLAIN, Kind, mix, nodes_and_spark
from tidegate.config import reading
from tidegate.model.commit_policy import COMMIT_POLICIES
from tidegate.model.failure_policy import FAILURE_POLICIES
from tidegate.model.output_uri import OutputFormat


@pytest.mark.parametrize("written_as", get_args(OutputFormat))
@pytest.mark.parametrize("name", KINDS)
def test_each_is_a_definition_that_holds(name: str, written_as: OutputFormat, tmp_path: Path) -> None:
    kind = KINDS[name].published_as(written_as)
    path = tmp_path / f"{kind.named(0)}.yaml"
    path.write_text(kind.definition(2000), encoding="utf-8")
    described = reading.load(path)
    assert (described.commit_strategy, described.failure_strategy) == (kind.commit, kind.failure)
    assert described.processing.format == ("parquet" if kind.at_once else written_as)
    assert described.consumer.group_id == kind.group
    assert described.retry_topics == kind.retry_topics
    dead_letters = described.dead_letter_queue.written_by(described.name, described.failure_strategy)
    assert dead_letters == kind.dead_letters


def test_every_strategy_is_struck() -> None:
    add = "add a Kind to tests/chaos/kinds.py"
    assert {kind.commit for kind in KINDS.values()} == COMMIT_POLICIES.keys(), add
    assert {kind.failure for kind in KINDS.values()} == FAILURE_POLICIES.keys(), add


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_somebody_has_a_batch_redelivered_where_one_can_stop(kind: Kind) -> None:
    assert kind.stops is (kind.max_retries < MANY)


def test_none_shares_a_group_or_a_lake_with_another() -> None:
    kinds = KINDS.values()
    assert len({kind.group for kind in kinds}) == len({kind.output for kind in kinds}) == len(kinds)


def test_each_comes_in_turn_beside_the_default_one() -> None:
    mixes = [mix(seed) for seed in range(100)]
    assert all(KINDS[chosen[0]] is PLAIN and len(set(chosen)) == 4 for chosen in mixes)
    assert {name for chosen in mixes for name in chosen} == KINDS.keys()
    assert mixes == [mix(seed) for seed in range(100)]


def test_none_comes_by_a_way_or_has_a_disk_that_is_not_there() -> None:
    drawn = {name for seed in range(100) for name in mix(seed, 3, mounts=False)}
    assert all(KINDS[name].access == "direct" and not KINDS[name].has_own_disk for name in drawn)
    assert {"renamed", "recreated-topic"} < drawn


def test_a_seed_decides_on_several_brokers_or_on_spark_and_never_on_both() -> None:
    assert {nodes_and_spark(seed) for seed in range(100)} == {(1, 0), (1, 5), (3, 0)}


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.access != "direct"])
def test_a_way_that_several_brokers_lack_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--nodes", "3", "--strategy", name])
    assert refused.value.code == 2
    assert f"only a single broker has the listener of {name}" in capsys.readouterr().err
