"""What the ledger says of a subscription's batches, asked through the `tidegate` command."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_local.errors import LocalStackError

_SECONDS = 60


@dataclass(frozen=True)
class BatchLine:
    """One batch: records landed, rows written and rejected (None where it didn't come so far)."""

    batch_id: str
    state: str
    records: int | None
    rows: int | None
    rejected: int | None
    seconds: float | None


def batches(subscription: str, environment: Mapping[str, str]) -> tuple[BatchLine, ...]:
    """Return the subscription's last thousand batches as `tidegate status --json` lists them.

    Raises LocalStackError with the command's own words if it fails.
    """
    command = [str(Path(sys.executable).with_name("tidegate")), "status", subscription, "--json", "--limit", "1000"]
    asked = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if asked.returncode:
        raise LocalStackError(f"tidegate status {subscription} failed: {asked.stderr or asked.stdout}")
    return tuple(
        BatchLine(*(each[name] for name in ("batch_id", "state", "records", "rows", "rejected", "seconds")))
        for each in json.loads(asked.stdout)["batches"]
    )
