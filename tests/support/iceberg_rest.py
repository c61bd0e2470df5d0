"""A real REST catalog: the one that Iceberg's own tests use, whose jars are on Maven Central, on SQLite and a folder.

Its lock file is made by: python tests/support/iceberg_rest.py > tests/support/iceberg_rest_jars.lock
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from class_data import SHORT_LIVED
from jars_of_tests import JarsOfTests

from tidegate_local.java import Java, find_java
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Awaited, Server

START_SECONDS = 240
VERSION = "1.10.0"
HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache"
_ROOTS = (
    f"org.apache.iceberg:iceberg-core:{VERSION}",
    f"org.apache.iceberg:iceberg-core:{VERSION}:tests",
    "org.eclipse.jetty:jetty-servlet:11.0.24",
    "org.xerial:sqlite-jdbc:3.46.1.3",
    "org.slf4j:slf4j-simple:2.0.17",
)


JARS = JarsOfTests(
    owner="the REST catalog's",
    lock="iceberg_rest_jars.lock",
    folder=f"iceberg-rest-{VERSION}",
    header="# Made by: python tests/support/iceberg_rest.py > tests/support/iceberg_rest_jars.lock\n",
)


class RestCatalogServer(Awaited):
    """A catalog that starts when this object is made, with all its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.uri = f"http://{HOST}:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        java = find_java()
        class_path = ":".join(map(str, [*JARS.paths(java, CACHE), *hadoop_jars()]))
        source = HERE / "java" / "IcebergRestCatalog.java"
        command = [str(java.program), *SHORT_LIVED.split(), "-cp", class_path, str(source), str(self.port), str(folder)]
        self._server = Server("the REST catalog", command, log=folder / "catalog.log")

    def wait(self) -> None:
        self._server.wait_until(lambda: answers(self.port), seconds=START_SECONDS)

    def stop(self) -> None:
        self._server.stop()


def hadoop_jars() -> list[Path]:
    """Hadoop's client, by which the catalog writes metadata: PySpark's."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return sorted(Path(spec.origin).parent.glob("jars/hadoop-client-*.jar"))


def lock_text(java: Java) -> str:
    """The lock file's new text."""
    return JARS.lock_text(java, _ROOTS, transitive=True)


if __name__ == "__main__":
    sys.stdout.write(lock_text(find_java()))
