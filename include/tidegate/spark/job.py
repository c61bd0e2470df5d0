"""Which way the Spark job runs is the connection's to say, and it is asked only when a job is to run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import WrongDefinitionError
from tidegate.ports import Connection, Connections, Processor
from tidegate.settings import PROJECT, absolute_uri
from tidegate.spark.connect import ConnectProcessor, connect_url
from tidegate.spark.submit import SubmitProcessor, submit_command

JOB = PROJECT / "spark_jobs" / "process_batch.py"


def job_file(home: Path, written: str | None) -> str:
    """The Spark job of a definition: `processing.job`, a path from `home` or a URI, or Tidegate's own."""
    if written is None:
        return str(JOB)
    return absolute_uri(home, written).removeprefix("file://")


def local_job(job: str) -> Path:
    """The job's file for a process on this machine. Raises WrongDefinitionError where it isn't one."""
    path = Path(job.removeprefix("file://"))
    if "://" in str(path) or not path.is_file():
        raise WrongDefinitionError(
            f"processing.job is {job}, which is no file here: over Spark Connect the job runs on this machine"
        )
    return path


def processor_of(connection: Connection, job: str) -> Processor:
    """spark-submit for a `spark` connection, a client of the server for a `spark_connect` one.

    Raises WrongDefinitionError for a connection of another type.
    """
    match connection.type:
        case "spark":
            return SubmitProcessor(submit_command(connection, job))
        case "spark_connect":
            return ConnectProcessor(connect_url(connection), local_job(job))
        case other:
            raise WrongDefinitionError(
                f"connection {connection.id} has type {other}: a batch is processed over a spark or a "
                "spark_connect connection"
            )


@dataclass(frozen=True, slots=True)
class JobProcessor:
    """Runs a job, Tidegate's own by default, in a child process over the Spark connection of this id."""

    connections: Connections
    connection: str
    job: str = str(JOB)

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; see `tidegate.ports.Processor`."""
        processor_of(self.connections.get(self.connection), self.job).run(manifest_uri, timeout, said, watch)
