"""The programs that Spark starts for Tidegate, in the package `tidegate_spark`; nothing of it is imported here."""

from importlib.util import find_spec
from pathlib import Path

from tidegate.model.errors import WrongDefinitionError

PACKAGE = "tidegate_spark"


def package_folder() -> Path:
    """The folder of `tidegate_spark`. Raises WrongDefinitionError where that isn't installed."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise WrongDefinitionError(
            f"Python finds no package {PACKAGE}, which has Tidegate's Spark jobs: install Tidegate whole, or name the "
            "folder that the package is in in PYTHONPATH"
        )
    return Path(spec.origin).parent


def processing_job() -> Path:
    """The program that processes a batch."""
    return package_folder() / "jobs" / "process_batch.py"


def landing_job() -> Path:
    """The program that lands a batch."""
    return package_folder() / "jobs" / "land_batch.py"


def fork_server() -> Path:
    """The program that forks a process for each job."""
    return package_folder() / "jobs" / "fork_server.py"
