"""Which positions follow from what a real Spark job acknowledges, step by step, on a real broker.

The steps and positions are those that the tests of SmallRye and Queue-Over-Http have for `throttled` and `latest`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from broker_world import Feed, Producers, committed, move
from confluent_kafka.admin import AdminClient

from tidegate.ports import Processor
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Step = tuple[dict[int, list[int]], list[int]]
"""Offsets that are acknowledged, by partition, and where the partitions stand then."""


@dataclass
class Observed:
    """A job that is let go on after each step, once the step was looked at; `stood` has the positions then."""

    job: Processor
    folder: Path
    stands: Callable[[], list[int]]
    stood: list[list[int]] = field(default_factory=list)

    def check(self) -> None:
        """See `tidegate.ports.Processor`."""
        self.job.check()

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """See `tidegate.ports.Processor`."""

        def look() -> None:
            number = len(self.stood)
            is_acknowledged = (self.folder / f"acknowledged-{number}").exists()
            watch()
            if is_acknowledged:
                self.stood.append(self.stands())
                (self.folder / f"seen-{number}").touch()

        self.job.run(manifest_uri, timeout, said, look)


THROTTLED: Sequence[Step] = (
    ({0: [0], 1: [45], 2: [3, 1, 10]}, [1, 42, 2]),
    ({0: [2], 1: [42], 2: [2, 5, 6, 4, 8]}, [1, 46, 7]),
    ({0: [1]}, [3, 46, 7]),
    ({0: [3]}, [4, 46, 7]),
)
LATEST: Sequence[Step] = (
    ({0: [0]}, [1, 42, 1]),
    ({0: [1]}, [2, 42, 1]),
    ({0: [3]}, [4, 42, 1]),
    ({0: [2]}, [4, 42, 1]),
    ({0: [1]}, [4, 42, 1]),
)


@pytest.fixture
def filled(topic: Callable[..., str], producers: Producers, admin: AdminClient) -> str:
    """0 to 3 in partition 0, 42 and 45 behind a group that stands at 42, and 1 to 10 behind one that stands at 1."""
    feed = Feed(topic(partitions=3), producers, admin)
    feed.send(0, 4)
    feed.send(1, 43)
    feed.send_aborted(1, 1)
    feed.send(1, 1)
    feed.send(2, 11)
    assert feed.ends() == {0: 4, 1: 46, 2: 11}
    move(admin, feed.topic, {0: 0, 1: 42, 2: 1})
    return feed.topic


@pytest.mark.parametrize(("strategy", "steps"), [("throttled", THROTTLED), ("latest", LATEST)])
def test_positions_are_those_of_the_systems_that_the_strategies_come_from(
    strategy: str,
    steps: Sequence[Step],
    broker: Broker,
    filled: str,
    tmp_path: Path,
    open_in_spark: Callable[..., Pipeline],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stands() -> list[int]:
        return committed(broker, f"{filled}-lake", *((filled, at) for at in range(3)))

    monkeypatch.setenv("STEPS", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_JOB_ENVIRONMENT", "STEPS")
    (tmp_path / "steps.json").write_text(json.dumps([acknowledged for acknowledged, _ in steps]))
    chosen = {"commit_strategy": strategy, "auto_commit_interval_ms": 0}
    pipeline = open_in_spark(filled, "acknowledging:step_by_step", **chosen)
    job = Observed(pipeline.processor, tmp_path, stands)
    ended = run_batch(replace(pipeline, processor=job), lambda _: None)
    assert ended.error is None
    assert job.stood == [positions for _, positions in steps]
    assert stands() == steps[-1][1]
    assert ended.batch is not None
    assert [r.end for r in ended.batch.ranges] == steps[-1][1]
