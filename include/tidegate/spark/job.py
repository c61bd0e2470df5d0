"""Which way the Spark job runs is the connection's to say, and it is asked only when a job is to run."""

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.errors import WrongDefinitionError
from tidegate.ports import Connection, Connections, Processor
from tidegate.settings import PROJECT
from tidegate.spark.connect import ConnectProcessor, connect_url
from tidegate.spark.submit import SubmitProcessor, submit_command

JOB = PROJECT / "spark_jobs" / "process_batch.py"


def processor_of(connection: Connection) -> Processor:
    """spark-submit for a `spark` connection, a client of the server for a `spark_connect` one.

    Raises WrongDefinitionError for a connection of another type.
    """
    match connection.type:
        case "spark":
            return SubmitProcessor(submit_command(connection, JOB))
        case "spark_connect":
            return ConnectProcessor(connect_url(connection), JOB)
        case other:
            raise WrongDefinitionError(
                f"connection {connection.id} has type {other}: a batch is processed over a spark or a "
                "spark_connect connection"
            )


@dataclass(frozen=True, slots=True)
class JobProcessor:
    """Runs the job in a child process over the Spark connection of this id."""

    connections: Connections
    connection: str

    def run(self, manifest_uri: str, timeout: float, said: Callable[[str], None]) -> None:
        """Run the job on this manifest; see `tidegate.ports.Processor`."""
        processor_of(self.connections.get(self.connection)).run(manifest_uri, timeout, said)
