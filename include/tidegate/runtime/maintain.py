"""Maintain: the tables that subscriptions publish into, each once."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate.model.output_uri import is_table, without_connection
from tidegate.parquet.known_stores import use_connections
from tidegate.ports import Connections, Upkeep
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.lakes import upkeep_of


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """What was done to the table of a subscription, or would be: None where there is none yet."""

    name: str
    output: str
    dry_run: bool
    upkeep: Upkeep | None = None
    error: TidegateError | None = None

    @property
    def is_anything(self) -> bool:
        """Whether something was done, or would be."""
        return self.upkeep not in {None, Upkeep()}

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        return {
            "subscription": self.name,
            "output": without_connection(self.output),
            "dry_run": self.dry_run,
            **asdict(self.upkeep or Upkeep()),
            "error": None if self.error is None else str(self.error),
        }

    def __str__(self) -> str:
        """The line that people read."""
        return f"{self.name}: {self._said if self.error is None else self.error}"

    @property
    def _said(self) -> str:
        done = self.upkeep
        if done is None:
            return "there is no table yet"
        if self.dry_run:
            compacted = f"would compact {done.compacted:,} files"
            return f"{compacted}, expire {done.expired:,} snapshots or commits and remove {done.removed:,} files"
        left = "; others committed all the time, and the rest is left for the next time" if done.yielded else ""
        return (
            f"compacted {done.compacted:,} files into {done.written:,}, expired {done.expired:,} snapshots or commits, "
            f"removed {done.removed:,} files{left}"
        )


def maintain_all(
    names: Sequence[str], settings: Settings, connections: Connections, *, dry_run: bool
) -> Iterator[MaintainedTable]:
    """Maintain one table after the other: one that can't be keeps nobody else's. Outputs of plain Parquet need none."""
    use_connections(connections)
    definitions = AllDefinitions(settings)
    seen = set()
    for name in names:
        output = ""
        try:
            output = output_uri(settings.home, definitions.load(name).processing)
            if not is_table(output) or output in seen:
                continue
            seen.add(output)
            upkeep = upkeep_of(output, connections).maintain(output, dry_run=dry_run)
            yield MaintainedTable(name, output, dry_run, upkeep)
        except TidegateError as error:
            yield MaintainedTable(name, output, dry_run, error=error)
