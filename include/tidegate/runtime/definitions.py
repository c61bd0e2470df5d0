"""All definitions of an installation: the files of its folder, and those that were stored by REST.

A name belongs to one of them; where both have it, the file counts. What is stored is read only for a name that no file
has, or where all are asked for: most installations have files alone.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tidegate.config.airflow_defaults import DEFAULTS_FILE, AirflowDefaults, read_defaults
from tidegate.config.check import Report, examine
from tidegate.config.holders import Holders
from tidegate.config.nearest import nearest
from tidegate.config.output_checks import OUTPUT_PROBLEMS
from tidegate.config.outputs import output_uri
from tidegate.config.reading import NAME, SUFFIX, DefinitionError, Reading, read, read_text
from tidegate.config.settings import Settings
from tidegate.ledger.holders import LedgerHolders, is_made
from tidegate.model.errors import TidegateError
from tidegate.model.subscription import Problem, Subscription

if TYPE_CHECKING:
    from tidegate.ledger.stored_definitions import SqlStoredDefinitions
    from tidegate.ports import DefinedGroup, StoredDefinition

log = logging.getLogger(__name__)

STORED: Final = Path("REST")
"""The folder that problems name, of definitions that aren't files."""
_CLASHES = OUTPUT_PROBLEMS | {"shared-name", "shared-group", "held-group", "shared-retry-topic"}
_ABSENT = {"no-transform", "no-job"}
_AS_IT_IS: Mapping[str, object] = MappingProxyType({})


def is_stored(path: Path) -> bool:
    """Whether this is the path that problems name, of a definition that isn't a file."""
    return path.parent == STORED


@dataclass(frozen=True)
class AllDefinitions:
    """The definitions, by name; also the port `Definitions`, for one run.

    Raises UnavailableError where the ledger, which has those that are stored, can't be asked.
    """

    settings: Settings

    @cached_property
    def holders(self) -> Holders:
        """Who has read with a group, and written into an output."""
        return LedgerHolders(self.settings.ledger)

    @cached_property
    def store(self) -> "SqlStoredDefinitions":
        """Where those are that aren't files."""
        from tidegate.ledger.stored_definitions import SqlStoredDefinitions  # noqa: PLC0415 (SQLAlchemy takes its time)

        return SqlStoredDefinitions(self.settings.ledger)

    @cached_property
    def defaults(self) -> AirflowDefaults:
        """What the folder says of all definitions, stored ones too."""
        return read_defaults(self.settings.subscriptions)

    def stored(self) -> "tuple[StoredDefinition, ...]":
        """Those that aren't files; a ledger that nobody has made yet isn't made for it."""
        return self.store.all() if is_made(self.settings.ledger) else ()

    def names(self) -> list[str]:
        """The names of all, right or wrong."""
        return sorted({*self.file_names(), *(each.name for each in self.stored())})

    def names_at_hand(self) -> list[str]:
        """The names of all, without those that are stored where the ledger can't be asked."""
        try:
            return self.names()
        except TidegateError as error:
            log.warning("definitions that were stored by REST are left out: %s", error)
            return sorted(self.file_names())

    def load(self, name: str, changed: Mapping[str, object] = _AS_IT_IS) -> Subscription:
        """The subscription of this name, but for the properties that are changed.

        Raises DefinitionError if it has an error, also if there is none.
        """
        reading = self._reading_of(name, changed)
        if reading is None:
            raise DefinitionError([self._unknown(name)])
        if reading.subscription is None:
            raise DefinitionError(reading.all_problems)
        return reading.subscription

    def load_to_run(self, name: str, beside: Report | None = None) -> Subscription:
        """The subscription of this name, if a run of it would write into nobody else's output, and has what it calls.

        `beside` is what `at_hand` has said just now, for who loads many: it reads all definitions. Raises
        DefinitionError, as `load` does, and where its output is another's, or has something of another format, or its
        job's file or its transform isn't there.
        """
        subscription = self.load(name)
        file = str(self.path(subscription))
        errors = [
            each
            for each in (beside or self.at_hand()).errors
            if each.file == file and each.rule in OUTPUT_PROBLEMS | _ABSENT
        ]
        if errors:
            raise DefinitionError(errors)
        return subscription

    def refused(self) -> Mapping[str, Sequence[Problem]]:
        """What keeps definitions from being used beside what each says by itself, by their subscriptions' names.

        That is what they have in common with others and only one may have, and a job's file or a transform that isn't
        there.
        """
        stored = self._stored_report()
        found: dict[str, list[Problem]] = defaultdict(list)
        for problem in (*self._report([]).errors, *stored.errors):
            if problem.rule in _CLASHES | _ABSENT:
                found[Path(problem.file).stem].append(problem)
        return found

    def reading(self, name: str) -> Reading | None:
        """What the definition of this name says, right or wrong; None if there is none."""
        return self._reading_of(name, _AS_IT_IS)

    def reading_of_stored(self, stored: "StoredDefinition", changed: Mapping[str, object] = _AS_IT_IS) -> Reading:
        """What a stored definition says, right or wrong; one that is draining has no schedule any more."""
        reading = read_text(STORED / f"{stored.name}{SUFFIX}", stored.text, changed, self.defaults)
        if stored.is_draining and reading.draft is not None:
            return replace(reading, draft=replace(reading.draft, schedule=None))
        return reading

    def is_overridden(self, name: str) -> bool:
        """Whether a file has this name, so that a stored definition of it isn't used."""
        return self.file(name).exists()

    def place(self, name: str) -> Path | None:
        """The file of this name, or what problems name in its place; None if there is no such definition."""
        file = self.file(name)
        if file.is_file():
            return file
        return STORED / file.name if NAME.fullmatch(name) and self.find(name) is not None else None

    def path(self, subscription: Subscription) -> Path:
        """The file of a subscription, or what problems name in its place."""
        file = self.file(subscription.name)
        return file if file.is_file() else STORED / file.name

    def group_of(self, name: str) -> "DefinedGroup | None":
        """See `tidegate.ports.Definitions`."""
        from tidegate.ports import DefinedGroup  # noqa: PLC0415 (parsing needn't wait for what the ports name)

        reading = self._read(name, _AS_IT_IS)
        if reading is None:
            return None
        return DefinedGroup(reading.draft.consumer.group_id if reading.draft else None)

    def is_draining(self, name: str) -> bool:
        """See `tidegate.ports.Definitions`; a file never is."""
        found = None if self.is_overridden(name) else self.find(name)
        return found is not None and found.is_draining

    def outputs(self) -> Mapping[str, str]:
        """See `tidegate.ports.Definitions`."""
        home = self.settings.home
        return {each.name: output_uri(home, each.processing) for _, each in self.at_hand().usable}

    def own_places(self) -> Mapping[str, str]:
        """See `tidegate.ports.Definitions`."""
        return self.settings.own_places

    def report(self, *candidates: Reading, imports: bool = False) -> Report:
        """All that is wrong with any of them, and between them; candidates stand in the place of those of their name.

        With `imports` their transforms are imported, too; see `examine`.
        """
        names = {candidate.file.stem for candidate in candidates}
        stored = [each for each in self.stored() if each.name not in names]
        report = self._report([*self._readings(stored), *candidates], imports=imports)
        return Report(report.usable, (*report.problems, *self._told_of(stored)))

    def at_hand(self) -> Report:
        """What can be used now: a stored definition never takes a file's DAG away, nor does a ledger that is away.

        That the ledger can't be asked is a problem like others.
        """
        files = self._report([])
        try:
            stored = self._stored_report()
        except TidegateError as error:
            log.warning("definitions that were stored by REST are left out: %s", error)
            stored = Report((), (Problem(str(error), "ledger", file=str(STORED)),))
        return Report((*files.usable, *stored.usable), (*files.problems, *stored.problems))

    def _stored_report(self) -> Report:
        """What can be used of those that aren't files, and what is wrong with them; nothing is said of files."""
        stored = self.stored()
        readings = self._readings(stored)
        report = self._report(readings) if readings else Report((), ())
        usable = tuple(draft for draft in report.usable if is_stored(draft[0].file))
        problems = [each for each in report.problems if Path(each.file).is_relative_to(STORED)]
        return Report(usable, (*problems, *self._overridden(stored)))

    def _readings(self, stored: "Iterable[StoredDefinition]") -> list[Reading]:
        """What those say that are used."""
        return [self.reading_of_stored(each) for each in stored if not self.is_overridden(each.name)]

    def _told_of(self, stored: "Sequence[StoredDefinition]") -> Iterator[Problem]:
        """What there is to say of stored definitions beside what they say."""
        yield from self._overridden(stored)
        for name in (each.name for each in stored if each.is_draining and not self.is_overridden(each.name)):
            text = (
                f"it was unsubscribed and is draining: no new batch begins; `tidegate status {name}` says what ends it"
            )
            yield Problem(text, "draining", severity="warning", file=str(STORED / f"{name}{SUFFIX}"))

    def _overridden(self, stored: "Iterable[StoredDefinition]") -> Iterator[Problem]:
        for name in (each.name for each in stored if self.is_overridden(each.name)):
            text = (
                f"the file {self.file(name)} has this name, and a file counts: no DAG runs this definition; remove it "
                f"by DELETE /tidegate/subscriptions/{name}"
            )
            yield Problem(text, "overridden", file=str(STORED / f"{name}{SUFFIX}"))

    def _report(self, more: Sequence[Reading], *, imports: bool = False) -> Report:
        settings = self.settings
        return examine(
            [settings.subscriptions],
            settings.home,
            imports=imports,
            holders=self.holders,
            more=more,
            absent=settings.no_subscriptions,
            own=settings.own_places,
        )

    def examined(self, name: str, text: str) -> Subscription:
        """The subscription of this name and text, if it were stored beside all the others.

        Raises DefinitionError if it has an error, or would give one to another definition.
        """
        candidate = read_text(STORED / f"{name}{SUFFIX}", text, defaults=self.defaults)
        report = self.report(candidate)
        found = next((draft for reading, draft in report.usable if reading is candidate), None)
        if found is None:
            files = (str(candidate.file), str(candidate.defaults.file))
            raise DefinitionError(each for each in report.problems if each.file in files)
        before = {(each.file, each.message) for each in self.report().errors}
        broken = [each for each in report.errors if (each.file, each.message) not in before]
        if broken:
            raise DefinitionError(replace(each, message=f"{Path(each.file).stem}: {each.message}") for each in broken)
        return found

    def file(self, name: str) -> Path:
        """Where the file of this name is, or would be."""
        return self.settings.subscriptions / f"{name}{SUFFIX}"

    def file_names(self) -> set[str]:
        """The names of those that are files; no other is read for it."""
        folder = self.settings.subscriptions
        if not folder.is_dir():
            return set()
        return {path.stem for path in folder.iterdir() if path.suffix == SUFFIX and path.name != DEFAULTS_FILE}

    def find(self, name: str) -> "StoredDefinition | None":
        """The stored definition of this name; nothing is made by asking."""
        return self.store.find(name) if is_made(self.settings.ledger) else None

    def _reading_of(self, name: str, changed: Mapping[str, object]) -> Reading | None:
        """A file of the folder is read whatever its name, to say what is wrong with that; a path is no name."""
        return self._read(name, changed) if NAME.fullmatch(name) or name in self.file_names() else None

    def _read(self, name: str, changed: Mapping[str, object]) -> Reading | None:
        if self.is_overridden(name):
            return read(self.file(name), changed)
        found = self.find(name)
        return None if found is None else self.reading_of_stored(found, changed)

    def _unknown(self, name: str) -> Problem:
        known = self.names_at_hand()
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"there are: {', '.join(known) or 'none'}"
        text = f"no subscription {name!r} in {self.settings.subscriptions}; {hint}"
        if not (known or self.settings.subscriptions.is_dir()):
            text = f"no subscription {name!r}: {self.settings.no_subscriptions}"
        return Problem(text, "name", file=str(self.file(name)))


class NoOtherDefinitions:
    """The port `Definitions` where a subscription stands alone."""

    def group_of(self, name: str) -> "DefinedGroup | None":  # noqa: ARG002 (the port's)
        """See `tidegate.ports.Definitions`; there is none."""
        return None

    def is_draining(self, name: str) -> bool:  # noqa: ARG002 (the port's)
        """See `tidegate.ports.Definitions`; none is."""
        return False

    def outputs(self) -> Mapping[str, str]:
        """See `tidegate.ports.Definitions`; there is none."""
        return {}

    def own_places(self) -> Mapping[str, str]:
        """See `tidegate.ports.Definitions`; there is none."""
        return {}
