"""The points of a healthy run, which the crash matrix strikes: before or after each effect that changes something."""

from collections.abc import Iterator

from crash_cases import PUBLISHED
from crashing import Point, run_watched
from world import World

from tidegate.ports import Clock, Fence, Lake, Landing, LandingWriter, Ledger, OffsetStore, StagedOutput
from tidegate.testing.effects import Effect

_READS = frozenset(
    map(
        Effect.of,
        [
            *(Ledger.look, Ledger.batch, Ledger.reported, Ledger.deliveries, Ledger.delivery_age, Ledger.now),
            *(Ledger.history, Ledger.outcomes, Ledger.last_ends, Ledger.losses, Ledger.closed_files, Ledger.tries),
            Ledger.clearances,
            *(StagedOutput.has_attempt, StagedOutput.results, StagedOutput.seal, StagedOutput.rejections),
            *(Lake.published, Lake.prepare),
            *(
                Lake.require_writable,
                Lake.staged_folders,
                Landing.framings,
                Landing.data_files,
                Landing.verify,
                LandingWriter.files,
            ),
            *(OffsetStore.committed, Fence.committed, Clock.now, Clock.monotonic, Clock.wait),
        ],
    )
)
"""Effects that change nothing outside of the process: a kill after one is a kill before it."""


class Recorder:
    """Notes the effects that change something, step by step, each with its number in the step."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._step = ""

    def enter(self, step: str) -> None:
        self._step = step

    def before(self, effect: Effect) -> None:
        """Nothing has happened yet."""

    def after(self, effect: Effect) -> None:
        if effect in _READS or effect.port in ("source", "reader"):
            return
        nth = 1 + sum((p.step, p.after) == (self._step, effect) for p in self.points)
        if effect != Effect.of(LandingWriter.write) or nth == 1:  # there are as many as chunks
            self.points.append(Point(self._step, after=effect, nth=nth))


def healthy_run() -> list[Point]:
    """After every effect of a run in which nothing goes wrong, and so before every one but the first."""
    world = World(partitions=len(PUBLISHED.records))
    for partition, count in enumerate(PUBLISHED.records):
        world.produce(count, partition)
    recorder = Recorder()
    run_watched(world.pipeline(**PUBLISHED.definition), recorder)
    return recorder.points


def before_each(points: list[Point]) -> Iterator[Point]:
    for point in points:
        yield Point(point.step, before=point.after, nth=point.nth)
