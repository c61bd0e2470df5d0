"""Who types a command, as the ledger notes it with what was decided."""

import getpass
import os


def person_here() -> str:
    """The user's name; of a user id without a name, as containers may have, the id: `uid 12345`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return f"uid {os.getuid()}"
