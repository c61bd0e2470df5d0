"""The checks of outputs: between definitions, and against what is there on this machine already."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from typing import Final

from tidegate.config.drafts import Draft, other_files, problem_at
from tidegate.config.holders import Holders
from tidegate.config.outputs import output_uri, taken_by
from tidegate.config.reading import Reading
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.output_uri import IcebergTable, is_table, parse_output
from tidegate.model.subscription import Problem

_OUTPUT: Final = "processing.output"
_SHARED: Final = "shared-output"
_TAKEN: Final = "taken-output"

_OWN: Final = "own-place"

OUTPUT_PROBLEMS: Final = frozenset({_SHARED, _TAKEN, _OWN})
"""The rules against what would harm others if it were run."""


def shared_outputs(drafts: Sequence[Draft], home: Path, holders: Holders) -> Iterator[Problem]:
    """Outputs that are one folder, or that lie within each other: readers of one would find the other.

    A table may have several writers. The definition whose newest batch went into its output, as `holders` tell, stays
    as it is where the others have never written there.
    """
    outputs = [
        _Place(reading, _real(parse_output(uri).place), is_table(uri)) for (reading, _), uri in _uris(drafts, home)
    ]
    owners: dict[str, list[_Place]] = defaultdict(list)
    for each in outputs:
        owners[each.place].append(each)
    for sharing in owners.values():
        if len(sharing) > 1 and not all(each.is_table for each in sharing):
            yield from _one_folder(sharing, holders)
    for within in outputs:
        for above in _above(within.place):
            if above in owners:
                yield from _one_in_another(within, owners[above], holders)


@dataclass(frozen=True)
class _Place:
    """Where the output of a definition is."""

    reading: Reading
    place: str
    is_table: bool

    @property
    def name(self) -> str:
        """The subscription's."""
        return self.reading.file.stem

    def problem(self, text: str) -> Problem:
        """What is wrong with it."""
        return problem_at(self.reading, _OUTPUT, f"{_OUTPUT} {text}", _SHARED, self.place)


def _one_folder(sharing: Sequence[_Place], holders: Holders) -> Iterator[Problem]:
    writers = _writers(sharing, holders)
    keepers = _keepers(sharing, writers)
    for each in sharing:
        if not keepers:
            others = other_files(each.reading.file, [other.reading.file for other in sharing])
            yield each.problem(f"is also that of {others}: give each subscription a folder of its own")
        elif each not in keepers:
            yield each.problem(f"is what {writers[0].name} writes into: give {each.name} a folder of its own")


def _keepers(sharing: Sequence[_Place], writers: Sequence[_Place]) -> Sequence[_Place]:
    """Whose folder it is: the only writer's, or where it is a table, that of all that have it as a table."""
    if writers and all(each.is_table for each in writers):
        return [each for each in sharing if each.is_table]
    return writers if len(writers) == 1 else ()


def _one_in_another(within: _Place, outer: Sequence[_Place], holders: Holders) -> Iterator[Problem]:
    if _writers([within], holders) and not _writers(outer, holders):
        for each in outer:
            yield each.problem(f"is around the folder that {within.name} writes into: give {each.name} one beside it")
    else:
        yield within.problem(f"lies within that of {outer[0].reading.file}: give each subscription a folder of its own")


def _writers(places: Sequence[_Place], holders: Holders) -> list[_Place]:
    """Those whose newest batch went where their definition says."""
    known = holders.outputs([each.name for each in places])
    went = {name: _real(parse_output(uri).place) for name, uri in known.items()}
    return [each for each in places if went.get(each.name) == each.place]


def taken_folders(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Outputs on this machine in whose folder there is something of another format."""
    for (reading, _), uri in _uris(drafts, home):
        output = parse_output(uri)
        if taken := taken_by(output):
            yield problem_at(reading, _OUTPUT, f"{_OUTPUT} {taken}", _TAKEN, output.place)


def own_outputs(drafts: Sequence[Draft], home: Path, own: Mapping[str, str]) -> Iterator[Problem]:
    """Outputs that mix with the installation's own places, the URIs by what each is."""
    for (reading, _), uri in _uris(drafts, home):
        if mixed := mixes_with(uri, own):
            yield problem_at(reading, _OUTPUT, f"{_OUTPUT} {mixed}: name another folder", _OWN, parse_output(uri).place)


def mixes_with(uri: str, places: Mapping[str, str]) -> str | None:
    """Which of these places an output is, lies in or holds, in words; None if it is apart from all.

    The places are URIs by what each is; links on this machine are followed.
    """
    output = _folder(parse_output(uri).place)
    for what, theirs in places.items():
        place = _folder(theirs)
        if output.startswith(place) or place.startswith(output):
            return f"is, lies in or holds {what}, {theirs}"
    return None


def _folder(place: str) -> str:
    return f"{_real(place).rstrip('/')}/"


def shared_tables(drafts: Sequence[Draft], home: Path) -> Iterator[Problem]:
    """Warnings of what several writers of one table do to each other's rows; they may be what is wanted."""
    of_table: dict[str, list[Draft]] = defaultdict(list)
    for draft, uri in _uris(drafts, home):
        if is_table(uri):
            of_table[_real(parse_output(uri).place)].append(draft)
    for writers in of_table.values():
        for each in writers:
            others = [other for other in writers if other is not each]
            yield from _same_records(each, others)
            yield from _other_feeds(each, others)


def _same_records(draft: Draft, others: Sequence[Draft]) -> Iterator[Problem]:
    reading, own = draft
    for other_reading, other in others:
        both = own.topics.named & other.topics.named if own.connection == other.connection else frozenset()
        if both:
            text = (
                f"{_OUTPUT}: {other_reading.file} reads topic {min(both)} into this table, too: its records are there "
                "once for each, unless both take other rows from them"
            )
            yield problem_at(reading, _OUTPUT, text, "same-records", own.processing.output, "warning")
            return


def _other_feeds(draft: Draft, others: Sequence[Draft]) -> Iterator[Problem]:
    reading, own = draft
    feeds = [other_reading.file for other_reading, other in others if other.processing.change_feed is not None]
    if own.processing.change_feed is not None and feeds:
        text = (
            f"{_OUTPUT}: {feeds[0]} has keys in this table, too, and neither knows what the other deletes: what one "
            "deletes, a late change of another brings back; give one subscription both topics, or each a table"
        )
        yield problem_at(reading, _OUTPUT, text, "two-feeds", own.processing.output, "warning")


def _uris(drafts: Sequence[Draft], home: Path) -> Iterator[tuple[Draft, str]]:
    """The URI of each output that has one."""
    for draft in drafts:
        with suppress(WrongDefinitionError):  # its own problems say why
            yield draft, output_uri(home, draft[1].processing)


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
