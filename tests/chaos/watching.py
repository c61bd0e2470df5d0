"""Shows how chaos goes on: a bar on a terminal, a line every ten seconds elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from chaos.producing import Numbers
from chaos.tally import Tally
from tidegate_local.progress import Display

_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.5


@dataclass(frozen=True)
class Watch:
    """How long it takes in all, in seconds since `began` on the monotonic clock, and what has happened."""

    began: float
    seconds: float
    tally: Tally
    numbers: Numbers

    @property
    def left(self) -> float:
        """Seconds to go; none or less when it is over."""
        return self.began + self.seconds - time.monotonic()

    def __str__(self) -> str:
        tally = self.tally
        return (
            f"{sum(tally.kills.values())} kills, {tally.runs} runs, {len(tally.batches)} batches, "
            f"{len(self.numbers.acknowledged):,} records, {len(tally.unexpected)} unexpected"
        )


@contextmanager
def watching(watch: Watch, show: Display) -> Iterator[None]:
    """Show how it goes while the context lasts."""
    over = threading.Event()
    shown = threading.Thread(target=_bar if show.console.is_terminal else _lines, args=(watch, show, over), daemon=True)
    shown.start()
    try:
        yield
    finally:
        over.set()
        shown.join()


def _bar(watch: Watch, show: Display, over: threading.Event) -> None:
    columns = SpinnerColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=show.console, transient=True) as progress:
        task = progress.add_task(str(watch), total=watch.seconds)
        while not over.wait(_BAR_SECONDS):
            progress.update(task, completed=watch.seconds - max(0.0, watch.left), description=str(watch))


def _lines(watch: Watch, show: Display, over: threading.Event) -> None:
    while not over.wait(_LINE_SECONDS):
        show.say(f"{time.monotonic() - watch.began:.0f} s: {watch}")
