"""The entry point of `tidegate`: Ctrl-C shows nobody a traceback, not even while the modules are imported."""

import signal
import sys

from tidegate.cli.interrupts import INTERRUPTED


def main() -> None:
    """Run the command line; the process ends with the command's exit status."""
    try:
        from tidegate.cli.app import app  # noqa: PLC0415 - see above

        app()
    except KeyboardInterrupt:
        sys.stderr.write(f"tidegate: {INTERRUPTED}\n")
        sys.exit(128 + signal.SIGINT)
