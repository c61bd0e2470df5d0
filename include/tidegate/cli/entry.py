"""The entry point of `tidegate`: Ctrl-C shows nobody a traceback, not even while the modules are imported."""

import signal
import sys
from collections.abc import Callable, Collection

from tidegate.cli.interrupts import INTERRUPTED


def main(pools: Callable[[], Collection[str]] | None = None) -> None:
    """Run the command line; the process ends with the command's exit status.

    `pools` asks for the names of Airflow's pools: only what runs inside Airflow can give it.
    """
    try:
        from tidegate.cli.app import app  # noqa: PLC0415 - see above

        app(obj=pools)
    except KeyboardInterrupt:
        sys.stderr.write(f"tidegate: {INTERRUPTED}\n")
        sys.exit(128 + signal.SIGINT)
