"""Redrives in the ledger: turns, chunks, and letters of each; implements `dead_letters.ports.RedriveLedger`."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Select, delete, func, insert, select, update

from tidegate.dead_letters.letter import Intent, MarkState, RedriveStatus, Settled, TopicIdentity
from tidegate.ledger.database import Database, database_time, in_parts
from tidegate.ledger.migrate import migrate
from tidegate.ledger.tables import redriven, redrives, redriving
from tidegate.ledger.upsert import enter_row
from tidegate.model.errors import StaleError, location, message
from tidegate.model.offsets import Range

_WEIGHT: dict[MarkState, int] = {"begun": 0, "unknown": 1, "redriven": 2}


class SqlRedrives:
    """The redrives of the ledger in the database of this URL, whose tables are made or migrated when it is opened.

    Raises WrongDefinitionError where the database can't be used by this version of Tidegate.
    """

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_time) -> None:
        self._database = Database(url)
        self._now = now
        migrate(self._database)

    def take_turn(self, topic: str) -> int:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        of_topic = redriving.c.topic == topic
        with self._database.write() as connection:
            enter_row(connection, redriving, {"topic": topic, "turn": 0})
            connection.execute(update(redriving).where(of_topic).values(turn=redriving.c.turn + 1))
            return int(connection.execute(select(redriving.c.turn).where(of_topic)).scalar_one())

    def check_turn(self, topic: str, turn: int) -> None:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        with self._database.read() as connection:
            _refuse_older(topic, turn, connection.scalar(_newest(topic)))

    def settle(self, identity: TopicIdentity, turn: int, last_token: str | None) -> Settled:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        open_ones = select(redrives.c.token, redrives.c.after).where(
            redrives.c.topic == identity.topic, redrives.c.state == "begun"
        )
        done = dropped = unknown = 0
        with self._database.write() as connection:
            _hold(connection, identity.topic, turn)
            for token, after in connection.execute(open_ones).all():
                letters = connection.scalar(select(func.count()).where(redriven.c.token == token)) or 0
                if token == last_token:
                    done += letters
                    self._close(connection, token, "redriven")
                elif after == last_token:
                    dropped += letters
                    connection.execute(delete(redriven).where(redriven.c.token == token))
                    connection.execute(delete(redrives).where(redrives.c.token == token))
                else:
                    unknown += letters
                    self._close(connection, token, "unknown")
        return Settled(done, dropped, unknown)

    def note(self, identity: TopicIdentity, turn: int, intent: Intent) -> None:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        chunk = {
            "token": intent.token,
            "after": intent.after,
            "topic": identity.topic,
            "topic_id": identity.id,
            "subscription": intent.subscription,
            "redriven_by": intent.by,
            "state": "begun",
            "noted_at": intent.at,
        }
        letters = [
            {"token": intent.token, "partition": partition, "offset": offset, "destination": destination}
            for (partition, offset), destination in sorted(intent.to.items())
        ]
        with self._database.write() as connection:
            _hold(connection, identity.topic, turn)
            connection.execute(insert(redrives).values(chunk))
            connection.execute(insert(redriven), letters)

    def mark(self, token: str) -> None:
        """See `tidegate.dead_letters.ports.RedriveLedger`; a chunk that somebody else has marked stays as it is."""
        with self._database.write() as connection:
            self._close(connection, token, "redriven")

    def marks(self, identity: TopicIdentity, partition: int, offsets: Collection[int]) -> dict[int, RedriveStatus]:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        found: dict[int, tuple[tuple[int, datetime], RedriveStatus]] = {}
        with self._database.read() as connection:
            for some in in_parts(sorted(offsets)):
                query = (
                    select(redrives, redriven.c.offset, redriven.c.destination)
                    .join(redriven, redriven.c.token == redrives.c.token)
                    .where(
                        redriven.c.partition == partition,
                        redriven.c.offset.in_(some),
                        redrives.c.topic == identity.topic,
                        redrives.c.topic_id == identity.id,
                    )
                )
                for row in connection.execute(query):
                    rank = (_WEIGHT[row.state], row.noted_at)
                    mark = RedriveStatus(row.state, row.destination, row.redriven_by, row.closed_at or row.noted_at)
                    if row.offset not in found or found[row.offset][0] < rank:
                        found[row.offset] = (rank, mark)
        return {offset: mark for offset, (_, mark) in found.items()}

    def redriven(self, identity: TopicIdentity, extent: Sequence[Range]) -> int:
        """See `tidegate.dead_letters.ports.RedriveLedger`."""
        done = (redrives.c.topic == identity.topic, redrives.c.topic_id == identity.id, redrives.c.state == "redriven")
        letters = select(redriven.c.offset).join(redrives, redriven.c.token == redrives.c.token).where(*done).distinct()
        with self._database.read() as connection:
            return sum(
                connection.scalar(select(func.count()).select_from(letters.where(*_within(held)).subquery())) or 0
                for held in extent
            )

    def _close(self, connection: Connection, token: str, state: MarkState) -> None:
        this = update(redrives).where(redrives.c.token == token, redrives.c.state != "redriven")
        connection.execute(this.values(state=state, closed_at=self._now(connection)))


def _within(held: Range) -> tuple[ColumnElement[bool], ...]:
    return (redriven.c.partition == held.partition, redriven.c.offset >= held.start, redriven.c.offset < held.end)


def _hold(connection: Connection, topic: str, turn: int) -> None:
    """Keep others from taking the turn until the transaction ends. Raises StaleError if somebody has taken it."""
    _refuse_older(topic, turn, connection.scalar(_newest(topic).with_for_update()))


def _newest(topic: str) -> Select[int]:
    return select(redriving.c.turn).where(redriving.c.topic == topic)


def _refuse_older(topic: str, turn: int, newest: int | None) -> None:
    if newest != turn:
        raise StaleError(
            message(
                "a newer redrive of this topic has taken over: what it finds undone it does, if it was asked for",
                location(topic=topic),
            )
        )
