"""Which strategies a history's subscription has, and who looks after it."""

import random
from dataclasses import dataclass
from itertools import product

from simulation.promises import ENDS, ORDERS
from simulation.runs import Work, clears, commits
from simulation.subscriptions import LATER, MANY, subscription
from tidegate.model.batch import Resolution
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, CommitStrategy
from tidegate.model.failure_policy import FailureStrategy
from tidegate.model.subscription import CommitFence, Subscription

NAMES = tuple(sorted({*ORDERS, *ENDS}))
"""What `--strategy` may say: a commit strategy or a failure strategy; `ignore` is both."""

_PLAIN = 0.35
_FENCED = 0.85
_MOSTLY = 0.8
_ANSWERS: tuple[Resolution, ...] = (Resolution.REDELIVER, Resolution.DEAD_LETTER, Resolution.SKIP)

_WAIT_FOR_A_PERSON = ("fail", "ask")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The strategies of one subscription, and what a person says of a batch that stops or asks.

    `fails` is the chance of each delivery, or of each step of one that `acknowledges`, to fail or to reject records.
    """

    commit: CommitStrategy = "after-processing"
    failure: FailureStrategy = "fail"
    fence: CommitFence = "transactional"
    max_retries: int = MANY
    answer: Resolution = Resolution.REDELIVER
    fails: float = 0.0
    acknowledges: bool = False

    def subscription(self, *, members: int, max_poll_records: int) -> Subscription:
        """The subscription, with as many members and records at a time."""
        return subscription(
            members,
            max_poll_records,
            self.fence,
            commit_strategy=self.commit,
            failure_strategy=self.failure,
            max_retries=self.max_retries,
            retries=LATER,
        )

    def person(self) -> Work | None:
        """What a person does beside the runs, if anybody is needed."""
        if COMMIT_POLICIES[self.commit].commit_at is CommitPoint.MANUAL:
            return commits
        waits = self.max_retries < MANY and self.failure in _WAIT_FOR_A_PERSON
        return clears(self.answer) if waits else None


def concerns(name: str, described: Subscription) -> bool:
    """Whether a subscription has this strategy."""
    return name in (described.commit_strategy, described.failure_strategy)


def draw(rng: random.Random, name: str | None = None, *, fenceless: bool = True) -> Chosen:
    """Strategies for one history; with a name, such as have it. Plain ones come often where none is asked for."""
    fence: CommitFence = "transactional" if not fenceless or rng.random() < _FENCED else "none"
    if name is None and rng.random() < _PLAIN:
        return Chosen(fence=fence)
    pairs = [(c, f) for c, f in product(ORDERS, ENDS) if name in (None, c, f)]
    commit, failure = rng.choice(pairs)
    max_retries, fails = rng.choice([(MANY, 0.0), (MANY, 0.3), (0, 0.3), (1, 0.5)])
    answer = rng.choice(_ANSWERS)
    acknowledges = COMMIT_POLICIES[commit].commits_acknowledged and rng.random() < _MOSTLY
    return Chosen(commit, failure, fence, max_retries, answer, fails, acknowledges)
