"""The checks between definitions of what they have in Kafka: a group, and the topics that they write to."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.config.drafts import Draft, other_files, problem_at, sharing
from tidegate.config.holders import Holders
from tidegate.config.strategies import DEAD_LETTERS, FAILURE, RETRIES
from tidegate.model.subscription import Problem, Subscription

_GROUP: Final = "consumer.group.id"


def shared_groups(drafts: Sequence[Draft], holders: Holders) -> Iterator[Problem]:
    """One group in two definitions, on whatever topics: its fence and its receipts are one subscription's."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, draft in drafts:
        names[draft.connection, draft.consumer.group_id].add(draft.name)
    for (reading, draft), others in sharing(drafts, lambda draft: (draft.connection, draft.consumer.group_id)):
        group = draft.consumer.group_id
        held = names[draft.connection, group] & set(holders.of_group(group))
        if held == {draft.name}:
            continue
        if len(held) == 1:
            text = f"{_GROUP}: {group} is the group that {held.pop()} reads with: give {draft.name} a group of its own"
            yield problem_at(reading, _GROUP, text, "held-group", group)
        else:
            text = (
                f"{_GROUP} is also that of {others}; both would fence each other's commits and move each other's "
                "offsets, on different topics too: give each a group of its own"
            )
            yield problem_at(reading, _GROUP, text, "shared-group", group)


def shared_topics(drafts: Sequence[Draft], holders: Holders) -> Iterator[Problem]:
    """Topics that several subscriptions write failed records to. A retry topic is read, too, by its subscription.

    Of those with one retry topic, the one that has read with its group already stays as it is.
    """
    owners: dict[tuple[str, str], list[tuple[Draft, str]]] = defaultdict(list)
    for each in drafts:
        for path, topic in _written_topics(each[1]):
            owners[each[1].connection, topic].append((each, path))
    for (_, topic), shared in owners.items():
        if len(shared) == 1:
            continue
        files = [reading.file for (reading, _), _ in shared]
        is_read = any(path == RETRIES for _, path in shared)
        kept = _only_reader([draft for (_, draft), _ in shared], holders) if is_read else None
        for (reading, draft), path in shared:
            place = path if path in reading.lines else FAILURE
            others = other_files(reading.file, files)
            if draft.name == kept:
                continue
            if is_read:
                text = f"{path}: {topic} is also that of {others}; one would retry the other's records"
                yield problem_at(
                    reading, place, f"{text}: give each subscription topics of its own", "shared-retry-topic", topic
                )
            else:
                text = f"{path}: {topic} also gets the dead letters of {others}; they are listed and redriven together"
                rule, mend = "shared-dead-letter-topic", "give each subscription a topic of its own"
                yield problem_at(reading, place, f"{text}: {mend}", rule, topic, "warning")


def _written_topics(draft: Subscription) -> Iterator[tuple[str, str]]:
    """The topics that a subscription writes failed records to, each once, with the property that names it."""
    yield from ((RETRIES, topic) for topic in draft.retry_topics)
    if draft.dead_letter_topic is not None and draft.dead_letter_topic not in draft.retry_topics:
        yield DEAD_LETTERS, draft.dead_letter_topic


def _only_reader(drafts: Sequence[Subscription], holders: Holders) -> str | None:
    """The one that has read with its group already, if it is the only one."""
    names = {draft.name for draft in drafts if draft.name in holders.of_group(draft.consumer.group_id)}
    return names.pop() if len(names) == 1 else None
