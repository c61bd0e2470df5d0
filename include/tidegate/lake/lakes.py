"""The lakes of all formats as one: each output goes to the lake that its URI names.

A lake is made when an output first needs it, so nobody needs the packages of a format that isn't used.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from tidegate.model.change_feed import MergeTarget
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.manifest import Manifest, Published
from tidegate.model.output_uri import parse_output
from tidegate.model.receipt import Receipt
from tidegate.model.records import Rejected
from tidegate.ports import Lake


class Lakes:
    """The port `Lake` over several of it, by the scheme of an output's URI.

    Each method raises WrongDefinitionError for a scheme that none of them has.
    """

    def __init__(self, by_scheme: Mapping[str, Callable[[], Lake]]) -> None:
        self._by_scheme = by_scheme
        self._made: dict[Callable[[], Lake], Lake] = {}

    def staging_of(self, output: str, batch_id: str, token: str, generation: int = 1) -> str:
        """See `tidegate.ports.Lake`."""
        return self._of(output).staging_of(output, batch_id, token, generation)

    def table_schema(self, output: str) -> str | None:
        """See `tidegate.ports.Lake`."""
        return self._of(output).table_schema(output)

    def require_writable(self, output: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(output).require_writable(output, partition_by)

    def merge_target(self, output: str, of: Receipt) -> MergeTarget:
        """See `tidegate.ports.Lake`."""
        return self._of(output).merge_target(output, of)

    def prepare(self, manifest: Manifest) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(manifest.batch.output).prepare(manifest)

    def is_passed(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return self._of(output).is_passed(output, of)

    def has_forgotten(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return self._of(output).has_forgotten(output, of)

    def remove_staged(self, output: str, folders: Collection[str]) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(output).remove_staged(output, folders)

    def is_absent(self, output: str) -> bool:
        """See `tidegate.ports.Lake`."""
        return self._of(output).is_absent(output)

    def published(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`."""
        return self._of(output).published(output, of)

    def published_ids(self, output: str, batch_ids: Collection[str]) -> frozenset[str]:
        """See `tidegate.ports.Lake`."""
        return self._of(output).published_ids(output, batch_ids)

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """See `tidegate.ports.Lake`."""
        return self._of(output).rejected(output, of)

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(manifest.batch.output).publish(manifest, attempt)

    def replaces_at_once(self, output: str) -> bool:
        """See `tidegate.ports.Lake`."""
        return self._of(output).replaces_at_once(output)

    def replacement(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`."""
        return self._of(output).replacement(output, of)

    def has_generation(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return self._of(output).has_generation(output, of)

    def replace(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(manifest.batch.output).replace(manifest, attempt)

    def remove_superseded(self, output: str, of: Receipt, folders: Collection[str]) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(output).remove_superseded(output, of, folders)

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """See `tidegate.ports.Lake`."""
        return self._of(output).staged_folders(output)

    def set_aside(self, output: str, of: Receipt) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(output).set_aside(output, of)

    def carry_over(self, output: str, given_up: Receipt, first: Receipt) -> None:
        """See `tidegate.ports.Lake`."""
        self._of(output).carry_over(output, given_up, first)

    def _of(self, output: str) -> Lake:
        """The lake of an output, made once for all outputs of its kind."""
        make = self._by_scheme.get(output.partition("://")[0])
        if make is None:
            raise WrongDefinitionError(
                f"nothing can be published as {parse_output(output).format} in {output}: change processing.format or "
                "processing.output"
            )
        if make not in self._made:
            self._made[make] = make()
        return self._made[make]
