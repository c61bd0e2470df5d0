"""The checks of outputs: between definitions, and against what is there on this machine already."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from os.path import realpath
from pathlib import Path
from typing import Final

from tidegate.config.drafts import Draft, other_files, problem_at
from tidegate.config.outputs import output_uri, taken_by
from tidegate.config.reading import Reading
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.output_uri import IcebergTable, is_table, parse_output
from tidegate.model.subscription import Problem

_OUTPUT: Final = "processing.output"
_SHARED: Final = "shared-output"
_TAKEN: Final = "taken-output"

OUTPUT_PROBLEMS: Final = frozenset({_SHARED, _TAKEN})
"""The rules against what would harm others if it were run."""


def shared_outputs(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Outputs that are one folder, or that lie within each other: readers of one would find the other.

    A table may have several writers.
    """
    places = [(reading, uri, _real(parse_output(uri).place)) for reading, uri in _output_uris(drafts, home)]
    owners: dict[str, list[Path]] = defaultdict(list)
    folders = {place for _, uri, place in places if not is_table(uri)}
    for reading, _, place in places:
        owners[place].append(reading.file)
    for reading, _, place in places:
        clashes = [f"lies within that of {owners[above][0]}" for above in _above(place) if above in owners]
        if len(owners[place]) > 1 and place in folders:
            clashes.append(f"is also that of {other_files(reading.file, owners[place])}")
        for clash in clashes:
            text = f"{_OUTPUT} {clash}: give each subscription a folder of its own"
            yield problem_at(reading, _OUTPUT, text, _SHARED, place)


def taken_folders(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Outputs on this machine in whose folder there is something of another format."""
    for reading, uri in _output_uris(drafts, home):
        output = parse_output(uri)
        if taken := taken_by(output):
            yield problem_at(reading, _OUTPUT, f"{_OUTPUT} {taken}", _TAKEN, output.place)


def _output_uris(drafts: Sequence[Draft], home: Path) -> Iterator[tuple[Reading, str]]:
    """The URI of each output that has one."""
    for reading, draft in drafts:
        with suppress(WrongDefinitionError):  # its own problems say why
            yield reading, output_uri(home, draft.processing)


def _real(place: str) -> str:
    """The folder that a URI means once links are followed, as far as it lies on this machine."""
    path = place.removeprefix("file://")
    return place.removesuffix("/") if path == place else f"file://{realpath(path)}"


def _above(place: str) -> Iterator[str]:
    """The folders that a URI lies in, the nearest first; none of a table in a catalog, where names don't nest so."""
    if isinstance(parse_output(place), IcebergTable):
        return
    while (end := place.rfind("/")) > 0:
        place = place[:end]
        yield place
