"""`tidegate dead-letters`: list the dead letters of a subscription, look at one, and redrive them.

Exit status: 0 done or nothing to do, 1 a redrive or a system failed, 2 the use or a definition is wrong.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, err, out, print_json
from tidegate.cli.person import person_here
from tidegate.cli.pipeline import looking, told_if_slow
from tidegate.cli.settings import Name, settings_here
from tidegate.model.errors import TidegateError, WrongDefinitionError

app = typer.Typer(no_args_is_help=True, help="List, show and redrive a subscription's dead letters.")

_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")
_Read = TypeVar("_Read")


def _read(parse: Callable[[str], _Read], what: str) -> Callable[[str], _Read]:
    """A parser whose refusal is a wrong use."""

    def read(written: str) -> _Read:
        try:
            return parse(written)
        except (ValueError, re.error) as error:
            raise typer.BadParameter(f"{written!r} is no {what}: {error}") from None

    return read


def _time(written: str) -> datetime:
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        raise ValueError("write it as in 2026-01-31T08:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _place(written: str) -> tuple[int, int]:
    found = _PLACE.fullmatch(written)
    if found is None:
        raise ValueError("write PARTITION:OFFSET, as in 0:17")
    return int(found[1]), int(found[2])


_as_time = _read(_time, "time in ISO 8601")

Reason = Annotated[
    re.Pattern[str] | None,
    typer.Option(
        parser=_read(re.compile, "regular expression"),
        metavar="REGEX",
        help="Only letters whose reason contains a match.",
    ),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=_as_time, metavar="ISO", help="Only records with this timestamp or a later one; UTC if it has no zone."
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(parser=_as_time, metavar="ISO", help="Only records with an earlier timestamp; UTC if it has no zone."),
]
OfPartition = Annotated[
    int | None, typer.Option("--partition", min=0, help="Only records from this partition of their topic.")
]
OfTopic = Annotated[str | None, typer.Option("--topic", help="Only records from this topic.")]


@app.command(name="list")
def list_(
    name: Name,
    *,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    partition: OfPartition = None,
    topic: OfTopic = None,
    limit: Annotated[int, typer.Option(min=0, help="How many to show; all are counted.")] = 100,
    as_json: Json = False,
) -> None:
    """List dead letters: place, origin, time, whether they were redriven, reason; then count them by reason.

    A redrive leaves out what is reprocessed, of a batch that was made again since, and what is of a replay.
    """
    from tidegate.dead_letters.letter import DeadLetterFilter  # noqa: PLC0415 - `tidegate --help` needn't wait for it

    with _opened(name, changes=False) as letters, _waiting("reading the dead letters"):
        listing = letters.list(DeadLetterFilter(reason, since, until, topic, partition), limit)
    if as_json:
        print_json({"subscription": name, **listing.to_json()})
        return
    from tidegate.cli import dead_letters_text as showing  # noqa: PLC0415 - see above

    showing.show_listing(listing, out, err)


@app.command()
def show(
    name: Name,
    place: Annotated[
        str, typer.Argument(metavar="PARTITION:OFFSET", help="Its place in the dead-letter topic, as list shows it.")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Show one dead letter whole: key, value, headers and timestamp."""
    from tidegate.cli import dead_letters_text as showing  # noqa: PLC0415 - see above
    from tidegate.dead_letters.listing import letter_to_json  # noqa: PLC0415 - see above

    partition, offset = _read(_place, "place")(place)
    with _opened(name, changes=False) as letters, told_if_slow():
        try:
            found = letters.find(partition, offset)
        except LookupError as error:
            raise typer.BadParameter(str(error), param_hint="PARTITION:OFFSET") from None
    if as_json:
        print_json({"subscription": name, **letter_to_json(found)})
    else:
        showing.show_letter(found, out)


@app.command()
def redrive(
    name: Name,
    *,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    partition: OfPartition = None,
    topic: OfTopic = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many, by partition and offset.")] = None,
    to: Annotated[str | None, typer.Option(help="Send all to this topic, not to the ones that they came from.")] = None,
    allow_topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic that letters may go back to besides the subscription's own; repeatable."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were redriven before.")] = False,
    reprocessed: Annotated[
        bool, typer.Option("--reprocessed", help="Also those of batches that were reprocessed since.")
    ] = False,
    replayed: Annotated[bool, typer.Option("--replayed", help="Also those that replays made.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be redriven, and do nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Don't ask for confirmation; required without a terminal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back to the topics that they came from, each once.

    They also stay in the dead-letter topic. Letters from topics that the subscription doesn't read need --allow-topic
    or --to.
    """
    from tidegate.dead_letters.letter import DeadLetterFilter  # noqa: PLC0415 - see above
    from tidegate.dead_letters.redriver import RedriveRequest  # noqa: PLC0415 - see above
    from tidegate.dead_letters.targets import Targets  # noqa: PLC0415 - see above

    if not (yes or dry_run or sys.stdin.isatty()):
        raise typer.BadParameter("nobody can be asked here: add --yes, or --dry-run to see what would be done")
    wanted = DeadLetterFilter(reason, since, until, topic, partition)
    with _opened(name, changes=not dry_run) as letters:
        targets = Targets(letters.subscription.topics, frozenset(allow_topic or ()))
        order = RedriveRequest(name, targets, wanted, to, again, reprocessed, replayed, limit, person_here())
        with _waiting("reading the dead letters"):
            surveyed = letters.survey(order)
        if dry_run or not surveyed.tally.total:
            is_there = surveyed.is_there
            _tell(letters.topic.name, order, surveyed.tally, None, as_json=as_json, dry_run=dry_run, is_there=is_there)
            return
        if not yes:
            _ask(letters.topic.name, order, surveyed.tally)
        _carry_out(letters, order, surveyed, as_json=as_json)


def _carry_out(letters: Any, order: Any, surveyed: Any, *, as_json: bool) -> None:
    redriver = letters.redriver(order)
    failed: TidegateError | None = None
    try:
        with _counting(surveyed.tally.total, quiet=as_json) as said:
            redriver.run(surveyed, said)
    except TidegateError as error:
        failed = error
    _tell(letters.topic.name, order, redriver.done, redriver.settled, as_json=as_json, error=failed)
    if failed is not None:
        raise typer.Exit(2 if isinstance(failed, WrongDefinitionError) else 1)


def _ask(topic: str, order: Any, tally: Any) -> None:
    from tidegate.cli import dead_letters_text as showing  # noqa: PLC0415 - see above

    for line in showing.left_out(order.subscription, tally):
        err.print(line, markup=False)
    if tally.begun:
        err.print(
            f"{tally.begun:,} of them were begun by a redrive that isn't finished: what became of them is found out "
            "first. If it still runs, it is shut out.",
            markup=False,
        )
    typer.confirm(f"Redrive {showing.destinations(tally)} from {topic}?", abort=True, err=True)


def _tell(
    topic: str,
    order: Any,
    tally: Any,
    settled: Any,
    *,
    as_json: bool,
    dry_run: bool = False,
    is_there: bool = True,
    error: TidegateError | None = None,
) -> None:
    from tidegate.cli import dead_letters_text as showing  # noqa: PLC0415 - see above

    if as_json:
        about = {"subscription": order.subscription, "topic": topic, "exists": is_there, "dry_run": dry_run}
        document = {**about, **tally.to_json()}
        told = {"settled": settled.to_json() if settled else None, "error": str(error) if error else None}
        print_json({**document, **told})
        return
    for line in (*showing.settled(settled), *showing.left_out(order.subscription, tally)):
        err.print(line, markup=False)
    out.print(
        f"{order.subscription}: {showing.outcome(topic, tally, dry_run=dry_run, is_there=is_there)}", markup=False
    )
    if error is not None:
        err.print(f"tidegate: {error}", style="red", markup=False)


@contextmanager
def _opened(name: str, *, changes: bool) -> Iterator[Any]:
    from tidegate.operations.dead_letters import open_dead_letters  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    settings = settings_here()
    subscription = AllDefinitions(settings).load(name)
    connections = connections_here()
    with (
        looking(settings, changes=changes) as readable,
        open_dead_letters(subscription, readable, connections) as found,
    ):
        yield found


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    with told_if_slow(), err.status(what) if err.is_terminal else nullcontext():
        yield


@contextmanager
def _counting(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line for each chunk elsewhere."""
    if err.is_terminal:
        columns = (TextColumn("redriving"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=err) as progress:
            bar = progress.add_task("", total=total)
            yield lambda count: progress.advance(bar, count)
        return
    done = 0

    def said(count: int) -> None:
        nonlocal done
        done += count
        if not quiet:
            err.print(f"{done:,} of {total:,} redriven", markup=False)

    yield said
