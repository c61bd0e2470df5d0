"""A Spark job without Spark, as spark-submit's command line has it: strict_job.py FILE ... MANIFEST.

It copies what has landed, as the double of the tests does, and fails of a record with an amount that is none, until
FILE is there, by which somebody corrects it.
"""

import json
import sys
from pathlib import Path

from pyarrow import parquet

from tidegate.testing.copying import CopyingProcessor


def main() -> None:
    """Fail of the first wrong record, or copy all."""
    correction, manifest = Path(sys.argv[1]), sys.argv[-1]
    files = json.loads(Path(manifest.removeprefix("file://")).read_text("utf-8"))["files"]
    if not correction.exists():
        for file in files:
            refuse_commas(file["uri"].removeprefix("file://"))
    CopyingProcessor().run(manifest, None, print, lambda: None)


def refuse_commas(path: str) -> None:
    """End with status 1 if a record has a comma in its amount."""
    for record in parquet.read_table(path, columns=["topic", "partition", "offset", "value"]).to_pylist():
        amount = json.loads(record["value"]).get("amount", "")
        if "," in amount:
            place = f"{record['topic']}-{record['partition']} at {record['offset']}"
            error = f"ValueError: {place}: amount '{amount}' is no DECIMAL(12,2)"
            said = {"cause": "records", "error": error, "where": "transforms/amounts.py:12"}
            sys.exit(f"tidegate-failure: {json.dumps(said)}")


if __name__ == "__main__":
    main()
