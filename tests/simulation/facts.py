"""What has become of each record so far: what the promises are held against."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

from tidegate.model import dead_letter_headers, retry_headers
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Headers, Outgoing, last

At = tuple[TopicPartition, int]
Records = frozenset[At]
NONE: Records = frozenset()


@dataclass(frozen=True, slots=True)
class Appeared:
    """What a published batch holds: its incarnation, its attempt, its records as written, and those it rejected."""

    incarnation: str
    attempt: str
    records: Records
    rejected: Records = NONE


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A batch of which nothing is published, though its offsets are to be committed; `is_settled` once they are."""

    incarnation: str
    records: Records
    is_settled: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What has become of the records of a topic.

    `everything` can be read; of that, `skipped` was passed over by a foreign tool and `landed` is durable. `published`
    and `given_up` are batches by id; `dead` tells how often each record became a dead letter, by incarnation. `passed`
    lies before the group's positions. `replayed` partitions were moved by a foreign tool, and `may_repeat` says that
    nobody can tell any more how far the group was; `may_repeat_within` that this goes for one incarnation too, which is
    so where only the ledger knew that a committer without a fence had moved the group back, and it is lost. `excused`
    had landed and was committed when the ledger was lost.

    Jobs have `acknowledged` records, by incarnation, and in doing so `overtaken` those before them; so does a published
    batch by what it rejected.

    Records are named by their first place but in `published` and `given_up`; `first` has that of each record in a retry
    topic. `waiting` ones are in a retry topic, and the group isn't past them.
    """

    everything: Records = NONE
    skipped: Records = NONE
    landed: Records = NONE
    published: Mapping[str, Appeared] = field(default_factory=dict)
    given_up: Mapping[str, GivenUp] = field(default_factory=dict)
    dead: Mapping[str, Mapping[At, int]] = field(default_factory=dict)
    passed: Records = NONE
    excused: Records = NONE
    replayed: frozenset[TopicPartition] = frozenset()
    may_repeat: bool = False
    may_repeat_within: bool = False
    acknowledged: Mapping[str, Records] = field(default_factory=dict)
    overtaken: Mapping[str, Records] = field(default_factory=dict)
    first: Mapping[At, At] = field(default_factory=dict)
    waiting: Records = NONE

    def written(self, incarnation: str | None = None) -> Records:
        """Records in the lake, of one incarnation or of all."""
        return self.at_first(b.records for b in self.published.values() if incarnation in (None, b.incarnation))

    def rejected(self, incarnation: str | None = None) -> Records:
        """Records beside the output, each with its reason."""
        return self.at_first(b.rejected for b in self.published.values() if incarnation in (None, b.incarnation))

    def gone(self, incarnation: str | None = None) -> Records:
        """Records of batches that were given up."""
        return self.at_first(b.records for b in self.given_up.values() if incarnation in (None, b.incarnation))

    def buried(self, incarnation: str | None = None) -> Records:
        """Records in the dead-letter topic."""
        return union(each for name, each in self.dead.items() if incarnation in (None, name))

    def done_with(self, incarnation: str | None = None) -> Records:
        """Records that a job acknowledged."""
        return self.at_first(each for name, each in self.acknowledged.items() if incarnation in (None, name))

    def passed_by(self, incarnation: str | None = None) -> Records:
        """Records that lie before one that a job acknowledged."""
        return self.at_first(each for name, each in self.overtaken.items() if incarnation in (None, name))

    @property
    def incarnations(self) -> frozenset[str]:
        """All incarnations of which there is anything."""
        published, given_up = self.published.values(), self.given_up.values()
        return frozenset(
            {*self.dead, *self.acknowledged, *(b.incarnation for b in published), *(b.incarnation for b in given_up)}
        )

    @property
    def kept_still(self) -> Records:
        """The records of partitions that nobody else moved: each has to have one end only."""
        if self.may_repeat:
            return NONE
        moved = {first for copy, first in self.first.items() if copy[0] in self.replayed}
        return frozenset(r for r in self.everything if r[0] not in self.replayed and r not in moved)

    @property
    def retried(self) -> Records:
        """Records that were in a retry topic."""
        return frozenset(self.first.values())

    def at_first(self, sets: Iterable[Iterable[At]]) -> Records:
        """All records of these sets, by their first places."""
        records = union(sets)
        return frozenset(self.first.get(r, r) for r in records) if self.first else records


def union(sets: Iterable[Iterable[At]]) -> Records:
    """All records of these sets."""
    return NONE.union(*sets)


def merged(*records: Mapping[str, Records]) -> Mapping[str, Records]:
    """What each of them has, by incarnation."""
    names = {name for each in records for name in each}
    return {name: NONE.union(*[each[name] for each in records if name in each]) for name in names}


def source(outgoing: Outgoing) -> At:
    """Where the record of a dead letter or a retry was first, as its headers tell.

    A dead letter that a person has made of a retry names the retry topic, and beside that the first place.
    """
    is_retry = last(outgoing.headers, retry_headers.TOPIC) is not None
    return _place(outgoing.headers, retry_headers if is_retry else dead_letter_headers)


def first_place(headers: Headers) -> At:
    """Where a record of a retry topic was first."""
    return _place(headers, retry_headers)


def _place(headers: Headers, named: ModuleType) -> At:
    topic, partition, offset = (last(headers, name) or b"" for name in (named.TOPIC, named.PARTITION, named.OFFSET))
    return TopicPartition(topic.decode(), int(partition)), int(offset)


def listed(records: Iterable[At]) -> str:
    """A few records by name."""
    return ", ".join(f"{at}@{offset}" for at, offset in sorted(records))
