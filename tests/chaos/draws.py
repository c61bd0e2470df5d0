"""What chaos draws: what becomes of each run, and when which server is killed.

Everything is drawn from generators that the seed alone decides, one for each runner and one for the servers, so the
same seed gives the same sequences of choices. When they fall is the machine's to say: real time can't be replayed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from random import Random
from typing import Literal

from tidegate.model.batch import Resolution

Step = Literal["plan", "land", "process", "commit"]
Blow = Literal[
    "none",
    "kill task",
    "stop task",
    "pause task",
    "kill driver",
    "stop driver",
    "driver lives on",
    "records fail",
    "flip landed",
    "flip staged",
    "full disk",
]
Target = Literal[
    "broker",
    "controller",
    "postgres",
    "spark",
    "topic",
    "partitions",
    "definition",
    "network",
    "quota",
    "password",
    "certificate",
    "disk",
    "broken disk",
    "receiver",
    "table",
]

_OFTEN: dict[Target, int] = {
    "spark": 4,
    "topic": 5,
    "partitions": 3,
    "definition": 6,
    "network": 6,
    "password": 6,
    "certificate": 6,
    "disk": 4,
    "broken disk": 4,
    "controller": 4,
    "quota": 1,
    "receiver": 6,
    "table": 6,
}
_SERVERS: tuple[Target, ...] = ("broker", "controller", "postgres", "spark", "receiver")
STEPS: tuple[Step, ...] = ("plan", "land", "process", "commit")
_BLOWS: dict[Blow, int] = {
    "none": 32,
    "kill task": 22,
    "stop task": 8,
    "pause task": 7,
    "kill driver": 7,
    "stop driver": 3,
    "driver lives on": 8,
    "records fail": 3,
    "flip landed": 3,
    "flip staged": 3,
    "full disk": 4,
}
FLIPS: tuple[Blow, ...] = ("flip landed", "flip staged")
_SKEWS = (*[0.0] * 7, -400.0, 400.0, 200_000.0)  # seconds
_ANSWERS = (Resolution.REDELIVER, Resolution.REDELIVER, Resolution.DEAD_LETTER, Resolution.SKIP)
_APART = 0.3
_LONGEST_RUN = 1.6  # seconds; a blow that comes later than the run takes hits nothing
_LONGEST_TASK = 0.6
_LONGEST_HOLD = 15.0  # longer than a poll or a commit waits
_MOST_ROOM = 60_000  # bytes, about what a batch lands in one file


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one run. Times are in seconds.

    `apart`: each task in a process of its own, as Airflow has it, and the blow falls on `step`; else one process runs
    all four steps. What is killed ends by SIGKILL, what is stopped by SIGTERM. `after` is how long the process that is
    struck lives before, `pause` how long it is held up. With `records fail` the job says that its records failed it; a
    flip changes a byte of the batch between two tasks; where the disk is full no file becomes larger than `room`.
    `skew` is how far the run's clock is ahead. `work` is how long the copying driver takes, half before and half after
    it has written; one that lives on while its task fails is done `late` seconds after that. `spark`: the real job,
    over Spark Connect. `answer` is what a person says of a batch that asks.
    """

    apart: bool = False
    step: Step = "plan"
    blow: Blow = "none"
    after: float = 0.0
    pause: float = 0.0
    room: int | None = None
    work: float = 0.0
    late: float = 0.0
    skew: float = 0.0
    spark: bool = False
    answer: Resolution = Resolution.REDELIVER


CALM = Fate()


@dataclass(frozen=True, slots=True)
class Strike:
    """Servers that are killed after `calm` seconds of peace, and started again after `away` seconds.

    So are topics deleted and created again, definitions renamed, answers of the broker held back, quotas set, passwords
    and certificates changed, and disks filled and broken.
    """

    targets: tuple[Target, ...]
    calm: float
    away: float


def fates(seed: int, runner: int, *, spark_every: int = 0, slower: int = 1) -> Iterator[Fate]:
    """The fates of one runner's runs, without end; with `spark_every` n, each n-th uses real Spark.

    Its runs take so many times as long as those that copy, and are struck so much later.
    """
    draw = Random(f"{seed} runner {runner}")  # noqa: S311 (a seed is to be repeated)
    number = 0
    while True:
        number += 1
        blow = draw.choices(list(_BLOWS), list(_BLOWS.values()))[0]
        apart = draw.random() < _APART or blow in FLIPS
        spark = bool(spark_every) and number % spark_every == 0
        yield Fate(
            apart=apart,
            step=draw.choice(STEPS),
            blow=blow,
            after=draw.uniform(0, (_LONGEST_TASK if apart else _LONGEST_RUN) * (4 if spark else slower)),
            pause=draw.uniform(0.2, 6),
            room=draw.randrange(_MOST_ROOM) if blow == "full disk" else None,
            work=draw.choice((0, 0.1, 0.5)) * draw.random() * 2,
            late=draw.uniform(0.1, 5),
            skew=draw.choice(_SKEWS),
            spark=spark,
            answer=draw.choice(_ANSWERS),
        )


def strikes(seed: int, beside: Collection[Target] = ()) -> Iterator[Strike]:
    """The strikes against the broker, PostgreSQL and what there is beside them, without end; first one of these two."""
    draw = Random(f"{seed} servers")  # noqa: S311 (a seed is to be repeated)
    servers: dict[tuple[Target, ...], int] = {("broker",): 4, ("postgres",): 5, ("postgres", "broker"): 1}
    others: dict[tuple[Target, ...], int] = {(target,): times for target, times in _OFTEN.items() if target in beside}
    for often in chain([servers], repeat(servers | others)):
        targets = draw.choices(list(often), list(often.values()))[0]
        longest = draw.choice((0, 0, 1, 5)) if targets[0] in _SERVERS else _LONGEST_HOLD
        yield Strike(targets, calm=draw.uniform(3, 12), away=longest * draw.random())
