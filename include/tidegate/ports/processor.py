"""Who carries out a delivery, and where its output is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from tidegate.model.manifest import Manifest


class Processor(Protocol):
    """Carries out a delivery to its end: by a Spark job, or by requests over HTTP."""

    def check(self) -> None:
        """Find out, at once, whether a job can begin here.

        Raises UnavailableError if what it needs can't be reached, WrongDefinitionError if no job could ever begin.
        """
        ...

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; each line that it prints goes to `said`.

        While it runs `watch` is called about once a second, from whichever thread; what it raises stops the job, and
        is raised. Raises BatchFailedError when the job fails, UnavailableError if it failed by something that couldn't
        be reached, DeliveryTimeoutError when it isn't done after `timeout` seconds and was stopped; None lets it take
        its time.
        """
        ...


class JobLog(Protocol):
    """The whole output of one delivery's job."""

    where: str
    """Where a person finds it; empty if nowhere, or while there is nothing of it."""

    def line(self, line: str) -> None:
        """Take a line of it."""
        ...


class JobLogs(Protocol):
    """Where the output of jobs is kept."""

    def open(self, manifest: Manifest) -> AbstractContextManager[JobLog]:
        """The log of a delivery that begins."""
        ...
