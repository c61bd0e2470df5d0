"""Runs a delivery's Spark job from a task: by the Spark provider's spark-submit, or over Spark Connect.

The type of the Airflow connection decides which, when the task executes.
"""

import logging
import math
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from tidegate.model.errors import InterruptedDeliveryError, WrongDefinitionError
from tidegate.ports import Connection, Processor
from tidegate.spark import connect
from tidegate.spark.child import overrun
from tidegate.spark.environment import job_environment, python_path, submit_environment
from tidegate.spark.job import NOTHING, local_job, no_spark, refuse_distance
from tidegate.spark.output import JobOutput
from tidegate.spark.reach import check_binary, check_master
from tidegate.spark.scripts import package_folder
from tidegate.spark.submit import master_of
from tidegate_airflow.connections import AirflowConnections

_WATCHED = 1.0  # seconds between two looks at a job that runs
_ENDED = re.compile(r"Error code is: (\d+)")  # as the provider's hook writes it
_STOPPED = "interrupted: Airflow stopped this task, and the Spark job with it; clear the task, or run the DAG again"


class Stoppable(Processor, Protocol):
    """A processor whose job can be stopped while it runs."""

    def stop(self) -> None:
        """Stop the job, from a signal handler of the thread that runs it."""
        ...


def processor(
    connection_id: str, job: str, environment: Mapping[str, str] = NOTHING, jobs: Path | None = None
) -> Stoppable:
    """The processor for this Spark connection and job, a path or URI.

    The job's process has the variables of `environment` too, which may be secrets, and imports from the folder `jobs`
    first. Raises WrongDefinitionError where the connection or the job is none, or the variables wouldn't reach it.
    """
    connection = AirflowConnections().get(connection_id)
    if environment:
        refuse_distance(connection)
    match connection.type:
        case "spark":
            return SubmitProcessor(connection, job, environment, jobs)
        case "spark_connect":
            return ConnectProcessor(connect.connect_url(connection), local_job(job), environment, connection.id, jobs)
        case _:
            raise no_spark(connection)


class SubmitProcessor:
    """spark-submit, on the master and in the deploy mode that the connection names."""

    def __init__(
        self, connection: Connection, job: str, environment: Mapping[str, str] = NOTHING, jobs: Path | None = None
    ) -> None:
        self._master = master_of(connection)
        if self._master.startswith("k8s") and find_spec("airflow.providers.cncf") is None:
            raise WrongDefinitionError(
                f"connection {connection.id} names a Kubernetes master: install "
                "apache-airflow-providers-cncf-kubernetes on this worker"
            )
        self._connection = connection
        self._job = job
        self._environment = environment
        self._jobs = jobs
        self._is_local = self._master.startswith("local")
        self._hook: SparkSubmitHook | None = None
        self._ended_by: Exception | None = None

    def check(self) -> None:
        """See `tidegate.ports.Processor`."""
        binary = str(self._connection.extra.get("spark-binary") or "spark-submit")
        _find(binary)
        check_binary(binary, self._connection.id)
        check_master(self._master, self._connection.id)

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """See `tidegate.ports.Processor`; at the deadline spark-submit and its driver are killed."""
        with nullcontext(None) if self._is_local else _archive(self._jobs) as modules:
            output = JobOutput(said)
            self._hook = _Hook(
                output.line,
                conn_id=self._connection.id,
                name="tidegate",
                py_files=modules,
                jars=self._connection.extra.get("jars"),
                packages=self._connection.extra.get("packages"),
                application_args=[manifest_uri],
                conf=self._python(),
            )
            done = Event()
            watching = Thread(target=self._watch, args=(timeout, watch, done), daemon=True)
            watching.start()
            try:
                # the hook's own env_vars go onto the command line for YARN and Kubernetes
                environment = {
                    **submit_environment(os.environ),
                    **job_environment(os.environ),
                    **python_path(self._jobs),
                    **self._environment,
                }
                self._hook.submit(self._job, env=environment)
            except AirflowException as error:
                raise self._ended_by or output.failure(f"failed ({_summary(error)})") from error
            finally:
                done.set()
                watching.join(_WATCHED)
            if self._ended_by is not None:
                raise self._ended_by

    def stop(self) -> None:
        """Kill spark-submit, and the application where it runs on a cluster."""
        self._end(InterruptedDeliveryError(_STOPPED))

    def _watch(self, timeout: float | None, watch: Callable[[], None], done: Event) -> None:
        """Look at the job once a second, and end it at its deadline, or with whatever looking at it raises.

        It is killed again each second until it is gone: what was raised early may come before there is a process.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not done.wait(_WATCHED if self._ended_by else max(0.0, min(_WATCHED, deadline - time.monotonic()))):
            try:
                if self._ended_by is not None:
                    self._end(self._ended_by)
                elif timeout is not None and time.monotonic() >= deadline:
                    self._end(overrun(timeout))
                else:
                    watch()
            except Exception as reason:  # noqa: BLE001 (it has no other way out of this thread, and `run` raises it)
                self._end(reason)

    def _end(self, reason: Exception) -> None:
        self._ended_by = self._ended_by or reason
        if self._hook is not None:
            self._hook.on_kill()

    def _python(self) -> dict[str, str]:
        """The driver runs in this interpreter, unless the environment says otherwise or it runs elsewhere."""
        if any(os.environ.get(name) for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")):
            return {}
        if self._connection.extra.get("deploy-mode") == "cluster":
            return {}
        key = "spark.pyspark.python" if self._is_local else "spark.pyspark.driver.python"
        return {key: sys.executable}


class ConnectProcessor(connect.ConnectProcessor):
    """The engine's, which a task that is stopped can leave."""

    def stop(self) -> None:
        """Leave `run` with an error; the child is stopped on the way out."""
        raise InterruptedDeliveryError(_STOPPED)


def _summary(error: AirflowException) -> str:
    """The hook's word, without the command and the lines that it repeats."""
    ended = _ENDED.search(str(error))
    return f"spark-submit ended with status {ended[1]}" if ended else str(error).partition("\n")[0]


class _Hook(SparkSubmitHook):  # type: ignore[misc]  # Airflow's types aren't followed
    """The provider's hook; what it logs, spark-submit's lines first of all, goes to `said` and nowhere else."""

    def __init__(self, said: Callable[[str], None], **options: Any) -> None:
        self._relay = logging.Logger("spark-submit", logging.INFO)  # noqa: LOG001 (each hook's own, shared with nobody)
        self._relay.addHandler(_Relay(said))
        super().__init__(**options)

    def on_kill(self) -> None:
        """Kill the job where it runs, and spark-submit even if that fails, which is only logged."""
        try:
            super().on_kill()
        except Exception:
            self.log.exception("the job couldn't be killed where it runs; spark-submit is")
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            self._submit_sp.kill()

    @property
    def log(self) -> logging.Logger:
        """Where the hook logs to."""
        return self._relay


class _Relay(logging.Handler):
    def __init__(self, said: Callable[[str], None]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said(record.getMessage())


@contextmanager
def _archive(jobs: Path | None) -> Iterator[str]:
    """The path of a temporary zip with Tidegate's own package for Spark, and with the modules in the folder `jobs`."""
    package = package_folder()
    modules = {file.relative_to(package.parent): file for file in package.rglob("*.py")}
    if jobs is not None:
        modules = {file.relative_to(jobs): file for file in jobs.rglob("*.py")} | modules
    with tempfile.TemporaryDirectory(prefix="tidegate-") as temporary:
        path = Path(temporary) / "spark_jobs.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for place, file in sorted(modules.items()):
                archive.write(file, place)
        yield str(path)


def _find(binary: str) -> None:
    """Let spark-submit be found where pip put it, though nobody activated the environment that Airflow runs in."""
    if shutil.which(binary) is None:
        os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
