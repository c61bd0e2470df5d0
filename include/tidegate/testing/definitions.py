"""Definitions in memory."""

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.ports import DefinedGroup


class MemoryDefinitions:
    """The port `Definitions`: `groups` has the group of each definition, by its name; `draining` are names.

    `others` are their outputs by name, `own` the installation's own places.
    """

    def __init__(
        self, groups: Mapping[str, str | None] | None = None, own: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.own = own
        self.groups = dict(groups or {})
        self.draining: set[str] = set()
        self.others: dict[str, str] = {}

    def group_of(self, name: str) -> DefinedGroup | None:
        """See `tidegate.ports.Definitions`."""
        return DefinedGroup(self.groups[name]) if name in self.groups else None

    def is_draining(self, name: str) -> bool:
        """See `tidegate.ports.Definitions`."""
        return name in self.draining

    def outputs(self) -> Mapping[str, str]:
        """See `tidegate.ports.Definitions`."""
        return self.others

    def own_places(self) -> Mapping[str, str]:
        """See `tidegate.ports.Definitions`."""
        return self.own
