"""Shows what is going on: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_PLAIN_EVERY = 0.25  # without a terminal a bar is a line at each quarter

Advance = Callable[[int], None]


class Display:
    """Where the progress goes; one step or bar at a time."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)

    def say(self, text: str, *, style: str | None = None) -> None:
        """Print one message as it is."""
        self.console.print(text, style=style, markup=False)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show that the block is at work, and at its end how long it took."""
        began = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(f"{text} ..."):
                yield
        else:
            yield
        self.say(f"{text}: {time.monotonic() - began:.1f} s")

    @contextmanager
    def bar(self, text: str, total: int) -> Iterator[Advance]:
        """Give a function that takes how many of the total are done; show that, and at the end how far it came."""
        began, last = time.monotonic(), 0

        def noting(advance: Advance) -> Advance:
            def note(done: int) -> None:
                nonlocal last
                last = done
                advance(done)

            return note

        if self.console.is_terminal:
            columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
            with Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True) as progress:
                task = progress.add_task(text, total=total)
                yield noting(lambda done: progress.update(task, completed=done))
        else:
            yield noting(self._plain_bar(text, total))
        self.say(f"{text}: {last:,} of {total:,} in {time.monotonic() - began:.1f} s")

    def _plain_bar(self, text: str, total: int) -> Advance:
        shown = 0.0

        def advance(done: int) -> None:
            nonlocal shown
            if total and done < total and done / total >= shown + _PLAIN_EVERY:
                shown = done / total
                self.say(f"{text}: {done:,} of {total:,}")

        return advance
