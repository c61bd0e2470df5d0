"""Whether a Spark connection leads to a Spark, found out without running a job."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tidegate.ports import Connection
from tidegate.spark.connect import connect_url
from tidegate.spark.environment import job_environment
from tidegate.spark.job import no_spark
from tidegate.spark.reach import CONNECT_PORT, master_addresses, refusals
from tidegate.spark.submit import submit_command

_SESSION_SECONDS = 90.0  # its imports take most of that on a machine that is busy
_SESSION = (
    "import os; from pyspark.sql import SparkSession; "
    "spark = SparkSession.builder.remote(os.environ['SPARK_REMOTE']).getOrCreate(); print(spark.version); spark.stop()"
)
_UNAUTHENTICATED = "StatusCode.UNAUTHENTICATED"
_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)
_LOGGED = re.compile(r"^[IWE][0-9]{4} [^]]*\] (.+)$", re.MULTILINE)  # as gRPC logs to stderr
_HANDSHAKE = "Handshake failed"


def spark_lacks(connection: Connection, timeout: float, environ: Mapping[str, str] = os.environ) -> str | None:
    """What keeps a job from being run over this connection, None if nothing was found.

    Raises WrongDefinitionError for a connection that can't be one to Spark.
    """
    match connection.type:
        case "spark_connect":
            return _connect_lacks(connection, timeout, environ)
        case "spark":
            return _submit_lacks(connection, timeout, environ)
        case _:
            raise no_spark(connection)


def _connect_lacks(connection: Connection, timeout: float, environ: Mapping[str, str]) -> str | None:
    url = connect_url(connection)
    host, port = (connection.host or "").removeprefix("sc://"), connection.port or CONNECT_PORT
    if refused := refusals([(host, port)], timeout):
        return f"Spark Connect can't be reached ({refused}): start it, or correct host and port"
    try:
        session = subprocess.run(
            [sys.executable, "-c", _SESSION],
            env={**job_environment(environ), "SPARK_REMOTE": url},
            capture_output=True,
            text=True,
            timeout=_SESSION_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        why = _why_late(connection, (late.stderr or b"").decode(errors="replace"))
        return f"what listens at {host}:{port} opens no session within {_SESSION_SECONDS:.0f} s: {why}"
    if session.returncode != 0:
        return f"Spark Connect at {host}:{port} opens no session: {_why(session.stderr)}"
    return None


def _why_late(connection: Connection, said: str) -> str:
    """Why no session was opened in time, as far as gRPC says what it tries again; with a token it speaks TLS."""
    lines = _LOGGED.findall(said)
    last = f" ({lines[-1].strip()})" if lines else ""
    use_ssl = connection.extra.get("use_ssl")
    if not lines or _HANDSHAKE not in lines[-1] or not (connection.password or use_ssl):
        return f"is it Spark Connect?{last}"
    named = "token" if connection.password else "use_ssl"
    without = "; on this machine, name the host localhost, where a token needs no TLS" if not use_ssl else ""
    return f"TLS fails there{last}, which the connection's {named} asks for: let the server speak TLS{without}"


def _why(said: str) -> str:
    """Why a session wasn't opened, by what was said last; gRPC says it within an error of several lines."""
    if _UNAUTHENTICATED in said:
        return "it refuses the token; set the connection's password to that of the server"
    details = _DETAILS.findall(said)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return str((details or lines or ["it says nothing"])[-1])


def _submit_lacks(connection: Connection, timeout: float, environ: Mapping[str, str]) -> str | None:
    binary, _, master, *_ = submit_command(connection, "job.py")
    if shutil.which(binary, path=environ.get("PATH")) is None:
        return f"{binary} isn't found: install Spark, or put its bin folder on the PATH of whoever runs the job"
    if master.startswith("yarn"):
        if not environ.get("HADOOP_CONF_DIR") and not environ.get("YARN_CONF_DIR"):
            return "the master is yarn, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR says where it is"
        return None
    if refused := refusals(master_addresses(master), timeout):
        return f"the master {master} can't be reached ({refused}): start it, or correct host and port"
    return None
