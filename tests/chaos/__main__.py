"""`PYTHONPATH=tests:tests/support python -m chaos`: what `make chaos` runs."""

import sys

from chaos.command import main

if __name__ == "__main__":
    sys.exit(main())
