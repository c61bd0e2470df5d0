"""`python -m tidegate_local.chaos`: what `make chaos` runs."""

import sys

from tidegate_local.chaos.command import main

if __name__ == "__main__":
    sys.exit(main())
