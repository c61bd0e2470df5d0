"""The subscriptions of chaos: all read the same topic, each with strategies, a group and a lake of its own."""

from dataclasses import dataclass

from tidegate.subscription import CommitStrategy, FailureStrategy

SUBSCRIPTION = "numbers"
_SOME = 97  # each number that this divides


@dataclass(frozen=True, slots=True)
class Kind:
    """A subscription, how many runners it has, and its strategies.

    Its job rejects each number that `rejects` divides, 0 for none; `output` is the lake's folder.
    """

    name: str = SUBSCRIPTION
    output: str = "lake"
    runners: int = 2
    commit: CommitStrategy = "after-processing"
    failure: FailureStrategy = "fail"
    rejects: int = 0

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.name}-lake"

    @property
    def dead_letters(self) -> str | None:
        """The dead-letter topic, if there is one."""
        return f"dead-letter-topic-{self.name}" if self.failure == "dead-letter-queue" else None


PLAIN = Kind()
KINDS: dict[str, Kind] = {
    "after-processing": PLAIN,
    "on-receipt": Kind("numbers-on-receipt", "lake-on-receipt", 1, commit="on-receipt"),
    "on-next-poll": Kind("numbers-on-next-poll", "lake-on-next-poll", 1, commit="on-next-poll"),
    "throttled": Kind("numbers-throttled", "lake-throttled", 1, commit="throttled"),
    "latest": Kind("numbers-latest", "lake-latest", 1, commit="latest"),
    "dead-letter-queue": Kind(
        "numbers-dead-letters", "lake-dead-letters", 1, failure="dead-letter-queue", rejects=_SOME
    ),
}
"""By what `--strategy` says; the jobs of throttled and latest acknowledge a batch by ending well."""

MIX = ("after-processing", "on-receipt", "dead-letter-queue")
"""Beside each other, unless something else is asked for."""
