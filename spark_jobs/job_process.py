"""A job as a process: what ends it, how its end is told, and what it keeps to itself."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from types import FrameType

from pyspark.sql import SparkSession

_FAILED, _WRONG, _TERMINATED = 1, 2, 128 + signal.SIGTERM


def run_job(
    program: str,
    arguments: list[str],
    job: Callable[[SparkSession, str], None],
    wrong: tuple[type[Exception], ...],
    secrets: Callable[[], Collection[str]] = tuple,
) -> int:
    """Run a job on the one URI that `arguments` name; its exit status.

    0 when it is done, 2 after an error of `wrong`, which trying again won't help, 1 after any other. SIGTERM takes
    back what the session still runs, and ends the process with 143. What it complains of is free of `secrets`, and of
    what a Spark Connect URL holds behind its host: tokens, headers.
    """
    if len(arguments) != 1:
        print(f"usage: {program} URI", file=sys.stderr)  # noqa: T201 (a program's own output)
        return _WRONG
    signal.signal(signal.SIGTERM, _terminate)
    try:
        _run(job, arguments[0])
    except wrong as error:
        _complain(f"{type(error).__name__}: {error}", secrets())
        return _WRONG
    except Exception:  # noqa: BLE001 (Spark's own errors are many; all are told, and all fail the job)
        _complain(traceback.format_exc(), secrets())
        return _FAILED
    return 0


def _run(job: Callable[[SparkSession, str], None], uri: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    try:
        job(spark, uri)
    except SystemExit:
        if "SPARK_REMOTE" in os.environ:
            spark.interruptAll()
        raise
    finally:
        spark.stop()


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(_TERMINATED)


def _complain(message: str, secrets: Collection[str]) -> None:
    for secret in filter(None, secrets):
        message = message.replace(secret, "…")
    for parameter in filter(None, os.environ.get("SPARK_REMOTE", "").split(";")[1:]):
        message = message.replace(parameter, f"{parameter.partition('=')[0]}=…")
    print(message, file=sys.stderr)  # noqa: T201 (a program's own output)
