"""A Spark Connect server for another process: `python -m tidegate_local.serve_spark FOLDER`.

Its Airflow connection, a secret, is printed as a line of JSON once it answers. It stops when its standard input ends,
and so with the process that holds the other end, however that one ends.
"""

import json
import sys
from pathlib import Path

from tidegate_local.errors import LocalStackError
from tidegate_local.java import find_java
from tidegate_local.spark_connect import SparkConnect

_MEMORY = "1g"


def main(folder: Path) -> None:
    """Serve until there is no more standard input."""
    with SparkConnect(java=find_java(), data=folder, memory=_MEMORY) as server:
        sys.stdout.write(json.dumps(dict(server.connection)) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except LocalStackError as error:
        sys.exit(str(error))
