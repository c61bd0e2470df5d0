"""Dead letters and redrives as text: a table on a terminal, lines of tab-separated fields elsewhere.

What others wrote into records never reaches a terminal as it is: characters that could steer it are escaped.
"""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.dead_letters.letter import DeadLetter, Settled
from tidegate.dead_letters.listing import Found, Line, Listing, said_missing
from tidegate.dead_letters.redriver import OTHERS, Tally
from tidegate.dead_letters.targets import is_kafkas_own
from tidegate.model.counting import counted, first_of
from tidegate.strategies.failure.dead_letters import after_last_retry

_IN_A_ROW = 80  # characters of a reason
_COUNTED = 160
_MOST_REASONS = 10
_MOST_TOPICS = 10
_MOST_IDS = 3
_STATES = {"begun": "begun", "redriven": "redriven", "unknown": "perhaps redriven"}


def show_listing(listing: Listing, out: Console, err: Console) -> None:
    """The letters, then how many there are for each reason; where no terminal is, that goes to `err`."""
    if not listing.is_there:
        out.print(said_missing(listing.topic, listing.dead_lettered or 0), markup=False)
        return
    to = out if out.is_terminal or not listing.count else err
    if listing.why_fewer:
        to.print(listing.why_fewer, markup=False)
    if not listing.count:
        out.print(f"topic {listing.topic} has none that was asked for", markup=False)
        return
    if out.is_terminal:
        out.print(_table(listing))
    else:
        for line in listing.lines:
            out.file.write("\t".join(_cells(line, _plain(line.reason))) + "\n")  # print() would expand the tabs
    shown = f", {len(listing.lines):,} of them shown" if len(listing.lines) < listing.count else ""
    to.print(
        f"{counted(listing.count, 'dead letter')} in {listing.topic}, {listing.redriven:,} redriven{shown}",
        markup=False,
    )
    if listing.reprocessed:
        said = f"{listing.reprocessed:,} of a batch that was reprocessed since: redrive leaves those out"
        to.print(f"{said}, unless --reprocessed", markup=False)
    if listing.replayed:
        to.print(f"{listing.replayed:,} of replays: redrive leaves those out, unless --replayed", markup=False)
    for reason, count in list(listing.reasons.items())[:_MOST_REASONS]:
        to.print(f"{count:>9,}  {_short(reason, listing.topic, _COUNTED) or '(no reason)'}", markup=False)
    if len(listing.reasons) > _MOST_REASONS:
        to.print(f"{'':>9}  and {len(listing.reasons) - _MOST_REASONS:,} reasons more", markup=False)


def show_letter(found: Found, out: Console) -> None:
    """All of one dead letter."""
    letter = found.letter
    fields = [
        ("topic", letter.at.topic),
        ("place", letter.place),
        ("origin", str(letter.origin or "unknown")),
        ("timestamp", _timestamp(letter)),
        ("produced", _iso(letter.produced_at)),
        ("reason", letter.reason),
        ("redrive", _marked(found) or "none"),
    ]
    for name, value in fields:
        out.print(f"{name + ':':<11}{_plain(value, lines=True)}", markup=False)
    out.print(f"headers:   {len(letter.headers)}", markup=False)
    for header, content in letter.headers:
        out.print(f"  {_plain(header)}: {_content(content)}", markup=False)
    out.print(f"key:       {_content(letter.key)}", markup=False)
    out.print(f"value:     {_content(letter.value)}", markup=False)


def destinations(tally: Tally) -> str:
    """`1,234 dead letters (1,200 to flights, 34 to gates)`."""
    each = ", ".join(f"{count:,} to {_plain(topic)}" for topic, count in sorted(tally.to.items()))
    return f"{counted(tally.total, 'dead letter')} ({each})" if each else "no dead letter"


def outcome(topic: str, tally: Tally, *, dry_run: bool, is_there: bool) -> str:
    """What was done, or would be; of a topic that isn't there no letter is known."""
    if not is_there:
        return said_missing(topic, 0)
    return f"{destinations(tally)} of {topic} {'would be redriven' if dry_run else 'redriven'}"


def left_out(subscription: str, tally: Tally) -> Iterator[str]:
    """A line for each kind of letter that was asked for and isn't redriven."""
    if tally.redriven_before:
        yield f"{tally.redriven_before:,} were redriven before; --again redrives them once more"
    if tally.perhaps_redriven:
        yield (
            f"{tally.perhaps_redriven:,} may have been redriven by a redrive that didn't finish, and Kafka has "
            "forgotten: look for tidegate-redriven-from among the headers of their topic; --again redrives them"
        )
    if tally.reprocessed:
        yield (
            f"{tally.reprocessed:,} are of batches that were reprocessed since: their records are rows by now, or were "
            f"rejected again, and `tidegate reprocess {subscription} --batch ID --dead-letters` makes newer letters of "
            "these; --reprocessed redrives all, and what is a row comes twice"
        )
    if tally.being_reprocessed:
        yield (
            f"{tally.being_reprocessed.total():,} are of batches whose reprocess has begun and hasn't ended, so that "
            f"their records may be rows by now: finish it by `tidegate reprocess {subscription} --batch ID` "
            f"({first_of(list(tally.being_reprocessed), _MOST_IDS)})"
        )
    if tally.replayed:
        yield (
            f"{tally.replayed:,} are of replays, which wrote elsewhere: this subscription's output may have their "
            "records as rows; --replayed redrives them"
        )
    if tally.without_origin:
        yield f"{tally.without_origin:,} don't say which topic they came from; --to names one"
    named = [(topic, count) for topic, count in tally.other_topics.most_common() if topic != OTHERS][:_MOST_TOPICS]
    for topic, count in named:
        said = f"{count:,} say that they came from {_plain(topic)}, which"
        if is_kafkas_own(topic):
            yield f"{said} Kafka keeps for itself; --to names another topic"
        else:
            yield f"{said} {subscription} doesn't read; --allow-topic {_plain(topic)} redrives them there"
    rest = tally.other_topics.total() - sum(count for _, count in named)
    if rest:
        yield f"{rest:,} say that they came from other topics that {subscription} doesn't read"


def settled(found: Settled | None) -> Iterator[str]:
    """A line on what became of redrives that didn't finish."""
    if found and found != Settled():
        yield (
            f"of redrives that didn't finish, {found.redriven:,} dead letters had been redriven, {found.dropped:,} "
            f"hadn't, and of {found.unknown:,} nobody knows"
        )


def _table(listing: Listing) -> Table:
    table = Table("at", "origin", "time", "redrive", "reason", box=None, padding=(0, 2, 0, 0))
    for line in listing.lines:
        table.add_row(*map(Text, _cells(line, _short(line.reason, listing.topic, _IN_A_ROW))))
    return table


def _cells(line: Line, reason: str) -> tuple[str, ...]:
    return (line.place, _plain(str(line.origin or "unknown")), _iso(line.time), _marked(line), reason)


def _marked(found: Found | Line) -> str:
    if found.mark is None:
        return "of a replay" if found.replay else "reprocessed" if found.reprocessed else ""
    return f"{_STATES[found.mark.state]} {_iso(found.mark.at)}"


def _iso(time: datetime | None) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if time else ""


def _timestamp(letter: DeadLetter) -> str:
    stamp = letter.record_timestamp
    return "none" if stamp is None else f"{_iso(letter.time)} ({stamp} ms)"


def _content(value: bytes | None) -> str:
    """Text as it is, other bytes in hexadecimal."""
    if value is None:
        return "null"
    try:
        return _plain(value.decode("utf-8"), lines=True)
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _short(reason: str, topic: str, most: int) -> str:
    """A reason without what all of the topic say; a long one is cut between its first two thirds and its end."""
    plain = _plain(" ".join(reason.removeprefix(after_last_retry(topic)).split()))
    end = most // 3
    return plain if len(plain) <= most else f"{plain[: most - end - 1]}…{plain[-end:]}"


def _plain(text: str, *, lines: bool = False) -> str:
    """The text with everything escaped that isn't printable, save for the ends of lines where they may stay."""
    return "".join(
        each if each.isprintable() or (lines and each == "\n") else each.encode("unicode_escape").decode()
        for each in text
    )
