"""A job that acknowledges while it runs: whatever it does is an effect of its own, after which it is watched."""

from collections.abc import Callable
from typing import Protocol


class Steps(Protocol):
    """What a job does, one by one: SimulatedSpark, or whoever stands before it."""

    def begin(self, manifest_uri: str) -> str:
        """Begin a job; what it is called from then on."""
        ...

    def acknowledge(self, job: str) -> bool:
        """Acknowledge a record; whether there are more to come."""
        ...

    def end(self, job: str) -> None:
        """End well."""
        ...


class AcknowledgingJob:
    """The port `Processor`: a job that is watched after each record that it acknowledges."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def check(self) -> None:
        """See `tidegate.ports.Processor`; it can always begin."""

    def run(
        self,
        manifest_uri: str,
        timeout: float | None,  # noqa: ARG002 (what it does takes no time)
        said: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """See `tidegate.ports.Processor`."""
        job = self._steps.begin(manifest_uri)
        said(f"job {job} acknowledges")
        while self._steps.acknowledge(job):
            watch()
        watch()
        self._steps.end(job)
