"""A job as a process: what ends it, how its end is told, and what it keeps to itself."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType
from typing import Any, TypeVar, cast

from pyspark.sql import SparkSession

from tidegate_spark.job_failure import SparkUnreachableError, TerminatedError, failure_of, origin, text_of

T = TypeVar("T")

_HELPS = {
    "UNAUTHENTICATED": "; its token is the password of the Spark connection",
    "TSI_PROTOCOL_FAILURE": "; a token, as use_ssl, asks for TLS: let the server speak it, or, on this machine, "
    "name the host localhost, where a token needs none",
}
"""What to do for an error in which this stands."""
_TRIES, _LONGEST_PAUSE = 6, 15_000  # pauses of 0.05, 0.2, 0.8, 3.2, 12.8 and 15 s

_PAUSE, _TAKEN_BACK_SECONDS = 0.1, 5
_LAST = "PYTHONPATH_LAST"  # what is imported from only where nothing else has a module
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
    what a Spark Connect URL holds behind its host: tokens, headers. Its last line says why it failed, as `job_failure`
    has it.
    """
    if len(arguments) != 1:
        print(f"usage: {program} URI", file=sys.stderr)  # noqa: T201 (a program's own output)
        return _WRONG
    signal.signal(signal.SIGTERM, _terminate)
    sys.path.extend(filter(None, os.environ.get(_LAST, "").split(os.pathsep)))
    try:
        _run(job, arguments[0])
    except Exception as error:  # noqa: BLE001 (Spark's own errors are many; all are told, and all fail the job)
        raised = origin(error)
        is_wrong = isinstance(raised, wrong)
        told = f"{type(raised).__name__}: {raised}" if is_wrong else "".join(traceback.format_exception(raised))
        _complain(told, secrets())
        _complain(failure_of(error).line(), secrets())
        return _WRONG if is_wrong else _FAILED
    return 0


@contextmanager
def beside(spark: SparkSession, work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Ask Spark for something beside what the block asks it for; the block is given how to wait for the answer.

    A Spark that has just started spends seconds on its first query, most of them in one thread. `work` calls no
    functions of columns: PySpark would look for an active session in the thread, find none, and note no call sites any
    more.

    When the block fails, what the session still runs is taken back, and has ended before anything is told, or is left
    after some seconds: a signal that ends a call may leave the others on its channel without an end.
    """
    asked: Future[T] = Future()
    Thread(target=_answer, args=(asked, work), name="beside", daemon=True).start()
    try:
        yield asked.result
    except BaseException:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already
        _wait_no_more(spark)
        deadline = time.monotonic() + _TAKEN_BACK_SECONDS
        while not asked.done() and time.monotonic() < deadline:  # what has just been sent may not run yet
            with suppress(Exception):
                spark.interruptAll()
            wait([asked], _PAUSE)
        raise


def _answer(asked: Future[T], work: Callable[[], T]) -> None:
    try:
        asked.set_result(work())
    except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
        asked.set_exception(error)


def _run(job: Callable[[SparkSession, str], None], uri: str) -> None:
    spark = reached()
    try:
        job(spark, uri)
    except SystemExit:
        if "SPARK_REMOTE" in os.environ:
            spark.interruptAll()
        raise
    finally:
        _wait_no_more(spark)
        _release_operations()
        spark.stop()


def _wait_no_more(spark: SparkSession) -> None:
    """Whoever has waited for a server in vain doesn't do so again in order to leave it; the last call asks it once."""
    if "SPARK_REMOTE" in os.environ:
        for policy in cast("Any", spark).client._retry_policies:  # noqa: SLF001 (calls under way give up too)
            policy.max_retries = 0


def _release_operations() -> None:
    """Let go of the session's operations before the session: PySpark does so in threads, which may come too late.

    A server that closes a session with operations writes their plans into its log, with the options of Kafka's source.
    """
    if "SPARK_REMOTE" in os.environ:
        from pyspark.sql.connect.client.reattach import (  # noqa: PLC0415 (a classic Spark may lack gRPC)
            ExecutePlanResponseReattachableIterator,
        )

        ExecutePlanResponseReattachableIterator.shutdown()


def reached() -> SparkSession:
    """The session, once Spark has answered. Raises SparkUnreachableError.

    Over Spark Connect a server that is away is waited for for half a minute, then and later: PySpark's own ten minutes
    say nothing meanwhile.
    """
    try:
        spark = SparkSession.builder.getOrCreate()
        if "SPARK_REMOTE" in os.environ:
            from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 (a classic Spark may lack gRPC)

            client: Any = cast("Any", spark).client
            client.set_retry_policies([DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE)])
            _ = spark.version
    except Exception as error:
        helps = next((remedy for sign, remedy in _HELPS.items() if sign in str(error)), "")
        raise SparkUnreachableError(f"Spark can't be reached: {text_of(error)}{helps}") from error
    return spark


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise TerminatedError(_TERMINATED)


def _complain(message: str, secrets: Collection[str]) -> None:
    for secret in filter(None, secrets):
        message = message.replace(secret, "…")
    for parameter in filter(None, os.environ.get("SPARK_REMOTE", "").split(";")[1:]):
        message = message.replace(parameter, f"{parameter.partition('=')[0]}=…")
    print(message, file=sys.stderr)  # noqa: T201 (a program's own output)
