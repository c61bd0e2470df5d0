"""Who runs the Spark job."""

from collections.abc import Callable
from typing import Protocol


class Processor(Protocol):
    """Runs the Spark job of a delivery to its end."""

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; each line that it prints goes to `said`.

        While it runs `watch` is called about once a second, from whichever thread; what it raises stops the job, and
        is raised. Raises BatchFailedError when the job fails, OverrunError when it isn't done after `timeout` seconds
        and was stopped; None lets it take its time.
        """
        ...
