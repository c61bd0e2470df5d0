"""Redrive, previewed: which dead letters are produced again, and to which topics."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from tidegate.dead_letters.letter import DeadLetterFilter
from tidegate.dead_letters.listing import said_missing
from tidegate.dead_letters.redriver import RedriveRequest, Survey, Tally
from tidegate.dead_letters.targets import Targets
from tidegate.model.counting import counted
from tidegate.model.errors import StaleError, WrongDefinitionError, location, message
from tidegate.model.offsets import TopicPartition
from tidegate.operations.actions.preview import ActionPreview, AffectedPartition
from tidegate.operations.dead_letters import OpenDeadLetters

FILTERS = ("reason", "since", "until", "topic", "partition", "limit", "again")
"""The params that say which letters are meant."""


def redrive_request(letters: OpenDeadLetters, params: Mapping[str, object], by: str) -> RedriveRequest:
    """The request that the params of a form make: `FILTERS`, and `ends`, lines `partition,offset`, or None.

    A reason is text that a letter's reason has, not a pattern. Raises WrongDefinitionError for wrong values.
    """
    reason, topic = params.get("reason"), params.get("topic")
    wanted = DeadLetterFilter(
        re.compile(re.escape(str(reason))) if reason else None,
        _time(params.get("since")),
        _time(params.get("until")),
        str(topic) if topic else None,
        _number(params, "partition"),
    )
    subscription = letters.subscription
    return RedriveRequest(
        subscription.name,
        Targets(subscription.topics),
        wanted,
        again=bool(params.get("again")),
        limit=_number(params, "limit", 1),
        by=by,
        ends=_ends(params.get("ends")),
    )


def preview_redrive(
    letters: OpenDeadLetters, params: Mapping[str, object], by: str, most: int | None = None
) -> tuple[ActionPreview, Survey]:
    """What the redrive of these params would produce, and the survey that carries it out.

    Raises what it would raise, see `dead_letters.redriver`; StaleError for nothing to redrive, and for a dead-letter
    topic with more than `most` offsets.
    """
    order = redrive_request(letters, params, by)
    name, topic = letters.subscription.name, letters.topic.name
    place = location(subscription=name, topic=topic)
    held = sum(r.end - r.start for r in letters.topic.extent())
    if most is not None and held > most:
        why = f"the dead-letter topic holds {held:,} offsets, more than the {most:,} that a page reads"
        remedy = f"trigger tidegate_redrive with dry_run, or use `tidegate dead-letters redrive {name} --dry-run`"
        raise StaleError(message(why, place, remedy))
    found = letters.survey(order)
    tally = found.tally
    if not found.is_there:
        why = f"there is nothing to redrive: {said_missing(topic, 0)}"
        raise StaleError(message(why, location(subscription=name), "if it is there, let the connection's user see it"))
    if not tally.total:
        why = f"there is nothing to redrive{_left_out(tally)}"
        raise StaleError(message(why, place, "choose other letters"))
    ends = {r.partition: r.end for r in found.extent}
    given = {key: params.get(key) for key in FILTERS}
    preview = ActionPreview(
        "redrive",
        name,
        f"{counted(tally.total, 'dead letter')} of {topic} {'is' if tally.total == 1 else 'are'} produced again: "
        f"{', '.join(f'{count:,} to {to}' for to, count in sorted(tally.to.items()))}.",
        {**given, "ends": "\n".join(f"{partition},{end}" for partition, end in sorted(ends.items()))},
        {"id": found.identity.id, **tally.to_json(), "begun": tally.begun},
        _consequences(tally),
        tuple(
            AffectedPartition(TopicPartition(topic, r.partition), r.start, r.end, r.end - r.start, "looked at")
            for r in found.extent
        ),
        total=tally.total,
    )
    return preview, found


def _consequences(tally: Tally) -> tuple[str, ...]:
    said = ["They stay in the dead-letter topic, too, and count as redriven. Correct the cause first."]
    if left_out := _left_out(tally):
        said.append(f"Left out{left_out}.")
    if tally.begun:
        said.append(f"{tally.begun:,} of them were begun by a redrive that isn't finished; if it runs, it is shut out.")
    return tuple(said)


def _left_out(tally: Tally) -> str:
    said = {
        "redriven before": tally.redriven_before,
        "perhaps redriven": tally.perhaps_redriven,
        "of batches that were reprocessed since": tally.reprocessed,
        "of batches whose reprocess was cut short": tally.being_reprocessed.total(),
        "of replays": tally.replayed,
        "without an origin": tally.without_origin,
        "from topics that the subscription doesn't read": tally.other_topics.total(),
    }
    named = ", ".join(f"{count:,} {why}" for why, count in said.items() if count)
    return f": {named}" if named else ""


def _number(params: Mapping[str, object], name: str, least: int = 0) -> int | None:
    value = params.get(name)
    if value is None or value == "":
        return None
    if not str(value).isdecimal() or int(str(value)) < least:
        raise WrongDefinitionError(f"{name} must be at least {least}, in digits alone: {value} isn't")
    return int(str(value))


def _time(written: object) -> datetime | None:
    if not written:
        return None
    try:
        time = datetime.fromisoformat(str(written))
    except ValueError:
        raise WrongDefinitionError(
            f"{written!r} isn't a time in ISO 8601: write it as in 2026-01-31T08:00:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _ends(written: object) -> dict[int, int] | None:
    if not written:
        return None
    found: dict[int, int] = {}
    for line in str(written).split():
        partition, _, end = line.partition(",")
        if not (partition.isdecimal() and end.isdecimal()):
            raise WrongDefinitionError(f"ends: {line!r} isn't partition,offset: write it as in 0,1200")
        found[int(partition)] = int(end)
    return found
