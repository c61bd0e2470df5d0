"""Who uses already what only one subscription may have: asked where several definitions have it in common."""

from collections.abc import Collection, Mapping
from typing import Final, Protocol


class Holders(Protocol):
    """What subscriptions have used, by their names; only what has run is known."""

    def of_group(self, group: str) -> Collection[str]:
        """Those that have read with the consumer group of this id."""

    def outputs(self, names: Collection[str]) -> Mapping[str, str]:
        """The URI of the output of each one's newest batch; none of those that never had a batch."""


class _Nobody:
    """Where nothing is known of what has run."""

    def of_group(self, group: str) -> Collection[str]:  # noqa: ARG002 (the protocol's)
        """See `Holders`; there are none."""
        return ()

    def outputs(self, names: Collection[str]) -> Mapping[str, str]:  # noqa: ARG002 (the protocol's)
        """See `Holders`; there are none."""
        return {}


NOBODY: Final[Holders] = _Nobody()
