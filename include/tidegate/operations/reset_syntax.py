"""Where to reset a group to, as people write it: on the command line, in a file, in the form of a DAG."""

import csv
import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from tidegate.model.errors import WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.steps.anchor import AtTime, Earliest, Latest
from tidegate.steps.reset_group import By, Target, ToOffsets

AT_TIME = "AT_TIME"
_EARLIEST, _LATEST = ("earliest", "TRIM_HORIZON"), ("latest", "LATEST")  # the second is OCI Streaming's word
_PARTITIONS = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})(:(?P<numbers>[0-9]{1,9}(,[0-9]{1,9})*))?")
_HEADER = ["topic", "partition", "offset"]


def target(
    to: str | None = None,
    time: str | None = None,
    offsets: str | None = None,
    by: int | None = None,
    *,
    takes_files: bool = False,
) -> Target:
    """What is meant. Raises WrongDefinitionError unless it is said exactly once.

    `to` is `earliest`, `latest`, or a time in ISO 8601, UTC without a zone; or OCI Streaming's TRIM_HORIZON, LATEST, or
    AT_TIME with `time`. `offsets` are lines `topic,partition,offset`. `takes_files` says that `to` could have named a
    file of them.
    """
    if sum(given is not None for given in (to, offsets, by)) != 1:
        raise WrongDefinitionError("give exactly one of to, offsets and by")
    if (to == AT_TIME) != (time is not None):
        raise WrongDefinitionError(f"{AT_TIME} and a time belong together: give both, or the time alone")
    if by is not None:
        return By(by)
    if offsets is not None:
        return ToOffsets(_offsets(offsets))
    if to in _EARLIEST:
        return Earliest()
    return Latest() if to in _LATEST else AtTime(_time(str(time or to), takes_files=takes_files))


def partitions(written: Iterable[str], existing: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """The partitions that `orders`, which is all of the topic, or `orders:0,2` names.

    Those of topics that aren't there are taken as they are written. Raises WrongDefinitionError for anything else.
    """
    chosen: set[TopicPartition] = set()
    for each in written:
        parsed = _PARTITIONS.fullmatch(each.strip())
        if parsed is None:
            raise WrongDefinitionError(f"{each!r} names no partitions: write a topic, or as in orders:0,2 some of it")
        topic, numbers = parsed["topic"], parsed["numbers"]
        of_topic = {at for at in existing if at.topic == topic} or {TopicPartition(topic, 0)}
        chosen |= {TopicPartition(topic, int(number)) for number in numbers.split(",")} if numbers else of_topic
    return frozenset(chosen)


def _time(written: str, *, takes_files: bool) -> datetime:
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        nor_file = ", nor a file that is here" if takes_files else ""
        raise WrongDefinitionError(
            f"{written!r} is neither earliest nor latest, nor a time in ISO 8601{nor_file}: write one of them, a time "
            "as in 2026-01-31T08:00:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _offsets(text: str) -> dict[TopicPartition, int]:
    """As Kafka's own tools write them; a header may come first. Raises WrongDefinitionError, naming the line."""
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(csv.reader(text.splitlines()), 1):
        fields = [field.strip() for field in line]
        if not any(fields) or (number == 1 and fields == _HEADER):
            continue
        if len(fields) != len(_HEADER) or not (fields[1].isdecimal() and fields[2].isdecimal()):
            wrong = ",".join(line)
            raise WrongDefinitionError(
                f"offsets, line {number}: {wrong!r} isn't topic,partition,offset: write it as in orders,0,1200"
            )
        at = TopicPartition(fields[0], int(fields[1]))
        if at in found:
            raise WrongDefinitionError(f"offsets, line {number}: {at} is named twice: leave one of them out")
        found[at] = int(fields[2])
    if not found:
        raise WrongDefinitionError("the offsets name no partition: write lines as in orders,0,1200")
    return found
