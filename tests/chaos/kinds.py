"""The subscriptions of chaos: all read the same topic, each with strategies, a group and a lake of its own."""

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPolicy, CommitStrategy
from tidegate.model.failure_policy import FAILURE_POLICIES, DeadLetterUse, FailureStrategy
from tidegate.model.output_uri import OutputFormat

SUBSCRIPTION = "numbers"
MANY = 100_000
DISK = "disk"
RECEIVED = "received.csv"
CATALOG = "catalog"
"""The connection id of the catalog that Iceberg tables are in."""
_SENDING = 3  # times as long as copying
_LARGER = 5  # batches over HTTP, that they keep up; one that is killed goes on where it was
_SOME = 97  # each number that this divides
_BESIDE = 2
_CHANGING = 1
_DEFINITION = """\
topics: [{topic}]
members: 3
consumer:
  group.id: {group}
  max.poll.records: {cap}
  max.poll.interval.ms: 45000
  auto.offset.reset: earliest
  fetch.max.wait.ms: 50
poll-timeout.ms: {poll_timeout}
commit-timeout.ms: 10000
commit-strategy: {commit}
failure-strategy: {failure}
max-retries: {retries}
{more}processing:
{over_http}  format: {format}
  output: {output}
"""
_OVER_HTTP = """\
  kind: http
  uri: {server}/{name}
  concurrency-factor: {at_once}
  delay-on-error.ms: 100
"""
_RETRIES = """\
delayed-retry-topic.topics: [{topics}]
delayed-retry-topic.timeout: 3600000
dead-letter-queue.topic: {dead_letters}
"""

_GOES_ON = "on-data-loss: reset\n"
_COMMITS_OFTEN = "auto.commit.interval.ms: 200\n"

Person = Literal["commits", "answers", "clears"]
Access = Literal["direct", "proxy", "password", "certificate"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A subscription, how many runners it has, and its strategies.

    Its job rejects each number that `rejects` divides, 0 for none, and of records that come from a retry topic those
    that `rejects_again` does. It `counts` records in the transform's state. A `person` commits its batches, answers for
    those that failed as often as they may, or has them redelivered. `output` is the lake's folder, and `format` what is
    there, `topic` what it reads. One that `is_renamed` has a number behind its name, another one each time; one that
    `has_own_disk` has its landing and its lake there, and the disk fills up now and then. `access` is how it comes to
    the broker: `chaos.access` has what happens on each of the ways. Over HTTP so many requests of a partition are under
    way `at_once`; 0 for a job.
    """

    name: str = SUBSCRIPTION
    output: str = "lake"
    runners: int = 2
    topic: str = SUBSCRIPTION
    commit: CommitStrategy = "after-processing"
    failure: FailureStrategy = "fail"
    rejects: int = 0
    rejects_again: int = 0
    counts: bool = False
    is_renamed: bool = False
    has_own_disk: bool = False
    access: Access = "direct"
    person: Person | None = None
    max_retries: int = MANY
    at_once: int = 0
    format: OutputFormat = "parquet"

    def published_as(self, written_as: OutputFormat) -> "Kind":
        """The same subscription with an output of this format, if its job can write that."""
        return self if self.at_once else replace(self, format=written_as)

    def named(self, times: int) -> str:
        """The subscription's name when it was renamed so many times."""
        return f"{self.name}-{times}" if self.is_renamed else self.name

    @property
    def has_table(self) -> bool:
        """Whether its output is a table, into which others write too."""
        return self.format != "parquet"

    @property
    def policy(self) -> CommitPolicy:
        """What the commit strategy comes to."""
        return COMMIT_POLICIES[self.commit]

    @property
    def changes(self) -> bool:
        """Whether it changes, or what it reads, or what lies between them."""
        return self.is_fleeting or self.is_renamed or self.has_own_disk or self.access != "direct"

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.name}-lake"

    @property
    def dead_letters(self) -> str | None:
        """The dead-letter topic, if there is one."""
        policy = FAILURE_POLICIES[self.failure]
        has_one = policy.uses_retry_topics or policy.dead_letters in (DeadLetterUse.ALWAYS, DeadLetterUse.WHEN_ASKED)
        return f"dead-letter-topic-{self.name}" if has_one else None

    @property
    def retry_topics(self) -> tuple[str, ...]:
        """The retry topics, if there are any; they have as many partitions as the topic."""
        delays = (500, 1000) if FAILURE_POLICIES[self.failure].uses_retry_topics else ()
        return tuple(f"{self.name}_retry_{delay}" for delay in delays)

    @property
    def is_fleeting(self) -> bool:
        """Whether its topic is deleted and created again."""
        return self.topic != SUBSCRIPTION

    @property
    def slower(self) -> int:
        """How many times as long as one that copies a run takes, about: a request takes its time."""
        return _SENDING if self.at_once else 1

    @property
    def stops(self) -> bool:
        """Whether a batch that failed as often as it may can stop it: somebody looks after it then."""
        return self.person in ("answers", "clears")

    @property
    def grounds(self) -> frozenset[str]:
        """The errors that its runs alone may end with."""
        stopped = {"StoppedError"} if self.stops else set()
        return frozenset(stopped | ({"LostDataError"} if self.is_fleeting else set()))

    @property
    def dies(self) -> int:
        """What divides the numbers that the job never takes; 0 for none."""
        return self.rejects_again or self.rejects

    def definition(self, cap: int, poll_timeout: int = 3000, server: str = "http://nowhere") -> str:
        """The definition, with so many records at a time, which go to a server where they go over HTTP."""
        more = _RETRIES.format(topics=", ".join(self.retry_topics), dead_letters=self.dead_letters)
        over_http = _OVER_HTTP.format(server=server, name=self.name, at_once=self.at_once)
        return _DEFINITION.format(
            topic=self.topic,
            group=self.group,
            cap=_LARGER * cap if self.at_once else cap,
            poll_timeout=poll_timeout,
            commit=self.commit,
            failure=self.failure,
            retries=self.max_retries,
            more=(more if self.retry_topics else "")
            + (_GOES_ON if self.is_fleeting else "")
            + (_COMMITS_OFTEN if self.at_once and self.commit == "throttled" else ""),
            over_http=over_http if self.at_once else "",
            format=self.format,
            output=as_written(self.output, self.format),
        )


def table_name(output: str) -> tuple[str, ...]:
    """The namespace and the name of the table in a catalog that lies where the output does."""
    folders = tuple(output.split("/"))
    return folders if len(folders) > 1 else ("tables", *folders)


def as_written(output: str, written_as: OutputFormat) -> str:
    """What a definition calls the output of this format that lies there."""
    return ".".join((CATALOG, *table_name(output))) if written_as == "iceberg" else output


PLAIN = Kind()
KINDS: dict[str, Kind] = {
    "after-processing": PLAIN,
    "on-receipt": Kind("numbers-on-receipt", "lake-on-receipt", 1, commit="on-receipt"),
    "on-next-poll": Kind("numbers-on-next-poll", "lake-on-next-poll", 1, commit="on-next-poll"),
    "manual": Kind("numbers-manual", "lake-manual", 1, commit="manual", person="commits"),
    "throttled": Kind("numbers-throttled", "lake-throttled", 1, commit="throttled"),
    "latest": Kind("numbers-latest", "lake-latest", 1, commit="latest"),
    "checkpoint": Kind("numbers-checkpoint", "lake-checkpoint", 1, commit="checkpoint", counts=True),
    "ignore": Kind("numbers-ignore", "lake-ignore", 1, commit="ignore"),
    "ignore-failures": Kind(
        "numbers-ignore-failures",
        "lake-ignore-failures",
        1,
        failure="ignore",
        rejects=_SOME,
        person="clears",
        max_retries=0,
    ),
    "dead-letter-queue": Kind(
        "numbers-dead-letters", "lake-dead-letters", 1, failure="dead-letter-queue", rejects=_SOME
    ),
    "delayed-retry-topic": Kind(
        "numbers-retries", "lake-retries", 1, failure="delayed-retry-topic", rejects=_SOME, rejects_again=2 * _SOME
    ),
    "ask": Kind("numbers-ask", "lake-ask", 1, failure="ask", person="answers", max_retries=0),
    "http": Kind("numbers-http", "lake-http", at_once=1),
    "http-throttled": Kind("numbers-http-throttled", "lake-http-throttled", 1, commit="throttled", at_once=8),
    "renamed": Kind("renamed", "lake-renamed", is_renamed=True),
    "new-passwords": Kind("known", "lake-known", access="password"),
    "new-certificates": Kind("certified", "lake-certified", access="certificate"),
    "bad-network": Kind("remote", "lake-remote", access="proxy"),
    "full-disk": Kind("crammed", f"{DISK}/lake-crammed", has_own_disk=True),
    "recreated-topic": Kind("fleeting", "lake-fleeting", topic="fleeting"),
}
"""By what `--strategy` says; the jobs of throttled and latest acknowledge a batch by ending well."""


def mix(seed: int, nodes: int = 1, *, mounts: bool = True) -> tuple[str, ...]:
    """The default subscription and others, which the seed decides, to run beside each other.

    Two have other strategies, and one changes, or what it reads does. Several nodes are come to directly alone, and
    only where chaos `mounts` has a subscription a disk of its own.
    """
    draw = Random(f"{seed} kinds")  # noqa: S311 (a seed is to be repeated)
    strategies = [name for name, kind in KINDS.items() if kind is not PLAIN and not kind.changes]
    changing = [
        name
        for name, kind in KINDS.items()
        if kind.changes and (mounts or not kind.has_own_disk) and (nodes == 1 or kind.access == "direct")
    ]
    return ("after-processing", *draw.sample(strategies, _BESIDE), *draw.sample(changing, _CHANGING))


def nodes_and_spark(seed: int) -> tuple[int, int]:
    """How many brokers there are, and how often a run uses real Spark, which is killed too: 0 for never.

    For most seeds one broker and no Spark; never both, for the machine's sake.
    """
    return Random(f"{seed} servers").choice(((1, 0), (1, 0), (1, 5), (3, 0)))  # noqa: S311 (a seed is to be repeated)
