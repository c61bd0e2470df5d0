"""The definitions that there are beside a subscription's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DefinedGroup:
    """The group of a definition; None where the definition is there and can't be read."""

    group: str | None


class Definitions(Protocol):
    """The definitions of this installation."""

    def group_of(self, name: str) -> DefinedGroup | None:
        """The group that the definition of this name gives; None if there is no such definition."""
        ...

    def is_draining(self, name: str) -> bool:
        """Whether the definition of this name was unsubscribed: its open batch ends, and no new one begins."""
        ...

    def outputs(self) -> Mapping[str, str]:
        """The absolute URI of the output of each definition that can be read, by name."""
        ...

    def own_places(self) -> Mapping[str, str]:
        """The URIs of the installation's own folders and files, by what each is: no output may mix with them."""
        ...
