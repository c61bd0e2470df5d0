"""Which way the Spark job runs is the connection's to say, and it is asked only when a job is to run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tidegate.config.settings import absolute_uri
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection, Connections, Processor
from tidegate.spark.connect import ConnectProcessor, connect_url
from tidegate.spark.scripts import processing_job
from tidegate.spark.submit import SubmitProcessor, submit_command

NOTHING: Mapping[str, str] = MappingProxyType({})
"""No variables beside our own."""


def job_file(home: Path, written: str | None) -> str:
    """The Spark job of a definition: `processing.job`, a path from `home` or a URI, or Tidegate's own."""
    if written is None:
        return str(processing_job())
    return absolute_uri(home, written).removeprefix("file://")


def local_job(job: str) -> Path:
    """The job's file for a process on this machine. Raises WrongDefinitionError where it isn't one."""
    path = Path(job.removeprefix("file://"))
    if "://" in str(path) or not path.is_file():
        raise WrongDefinitionError(
            f"processing.job is {job}, which is no file here: over Spark Connect the job runs on this machine"
        )
    return path


def processor_of(
    connection: Connection, job: str, environment: Mapping[str, str] = NOTHING, jobs: Path | None = None
) -> Processor:
    """spark-submit for a `spark` connection, a client of the server for a `spark_connect` one.

    The job's process has the variables of `environment` too, and imports from the folder `jobs` first. Raises
    WrongDefinitionError for a connection of another type, and for one that would run the job where the variables don't
    reach it.
    """
    if environment:
        refuse_distance(connection)
    match connection.type:
        case "spark":
            return SubmitProcessor(submit_command(connection, job), environment, connection.id, jobs)
        case "spark_connect":
            return ConnectProcessor(connect_url(connection), local_job(job), environment, connection.id, jobs)
        case _:
            raise no_spark(connection)


def no_spark(connection: Connection) -> WrongDefinitionError:
    """What is raised for a connection of another type."""
    return WrongDefinitionError(
        f"connection {connection.id} has type {connection.type}: `processing.connection` must name one of type spark "
        "(spark-submit) or spark_connect (Spark Connect)"
    )


def refuse_distance(connection: Connection) -> None:
    """Raise WrongDefinitionError for a connection whose driver runs elsewhere, where no secrets can be handed to it."""
    if connection.type == "spark" and connection.extra.get("deploy-mode") == "cluster":
        raise WrongDefinitionError(
            f"connection {connection.id} has deploy-mode cluster: the landing job's driver would run where Kafka's "
            "credentials reach it only through a command line; take client, or Spark Connect, or landing-engine python"
        )


@dataclass(frozen=True, slots=True)
class JobProcessor:
    """Runs a job in a child process over the Spark connection of this id.

    `environment` holds variables of the job's process; they may be secrets. It imports from the folder `jobs` first.
    """

    connections: Connections
    connection: str
    job: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    jobs: Path | None = None

    def check(self) -> None:
        """See `tidegate.ports.Processor`."""
        self._processor().check()

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; see `tidegate.ports.Processor`."""
        self._processor().run(manifest_uri, timeout, said, watch)

    def _processor(self) -> Processor:
        return processor_of(self.connections.get(self.connection), self.job, self.environment, self.jobs)
