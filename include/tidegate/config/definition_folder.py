"""A folder of definitions, as the steps ask for it."""

from dataclasses import dataclass
from pathlib import Path

from tidegate.config.reading import SUFFIX, read
from tidegate.ports import DefinedGroup


@dataclass(frozen=True, slots=True)
class DefinitionFolder:
    """The port `Definitions`: one file each, read when it is asked for."""

    folder: Path

    def group_of(self, name: str) -> DefinedGroup | None:
        """See `tidegate.ports.Definitions`."""
        path = self.folder / f"{name}{SUFFIX}"
        if not path.exists():
            return None
        draft = read(path).draft
        return DefinedGroup(draft.consumer.group_id if draft else None)


class NoOtherDefinitions:
    """The port `Definitions` where a subscription stands alone."""

    def group_of(self, name: str) -> DefinedGroup | None:  # noqa: ARG002 (the port's)
        """See `tidegate.ports.Definitions`; there is none."""
        return None
