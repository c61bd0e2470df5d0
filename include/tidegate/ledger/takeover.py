"""What becomes of rows when a group goes over to another subscription, or to another cluster."""

from typing import Any

from sqlalchemy import Connection, Table, delete, exists, insert, literal, select, update

from tidegate.ledger.tables import (
    batches,
    checkpoints,
    groups,
    losses,
    missing,
    positions,
    replays,
    resets,
    states,
    topics,
)

_OF_THE_GROUP = (positions, checkpoints, states, groups)
_OF_THE_SUBSCRIPTION = (topics, missing, losses)


def move(connection: Connection, group: str, old: str, new: str, shift: int) -> None:
    """Make what is the group's the new subscription's, and copy what is known of the old one's topics.

    Versions and numbers of the old subscription count on from the new one's: `shift` is added to them.
    """
    for table in _OF_THE_GROUP:
        connection.execute(delete(table).where(table.c.subscription == new, table.c.group_id == group))
    of_old = (batches.c.subscription == old, batches.c.group_id == group)
    moved = update(batches).where(*of_old).values(subscription=new, number=batches.c.number + shift)
    connection.execute(moved)
    reset = (resets.c.subscription == old, resets.c.group_id == group)
    connection.execute(update(resets).where(*reset).values(subscription=new))
    connection.execute(update(replays).where(replays.c.subscription == old).values(subscription=new))
    for table in _OF_THE_GROUP:
        values: dict[str, Any] = {"subscription": new}
        if "version" in table.c:
            values["version"] = table.c.version + shift
        connection.execute(update(table).where(table.c.subscription == old, table.c.group_id == group).values(values))
    for table in _OF_THE_SUBSCRIPTION:
        _copy(connection, table, old, new)


def forget_topics(connection: Connection, subscription: str) -> None:
    """The topics of another cluster are others, whatever they are called."""
    for table in (topics, missing):
        connection.execute(delete(table).where(table.c.subscription == subscription))


def forget_checkpoints(connection: Connection, subscription: str, group: str) -> None:
    """Positions that were kept here are another cluster's; the state beside them stays."""
    of_group = (checkpoints.c.subscription == subscription, checkpoints.c.group_id == group)
    connection.execute(delete(checkpoints).where(*of_group))


def _copy(connection: Connection, table: Table, old: str, new: str) -> None:
    """Rows of the old subscription for the new one too; what is known to the new one already gives way."""
    key = [column.name for column in table.primary_key if column.name != "subscription"]
    names = [column.name for column in table.c if column.name != "subscription"]
    known = table.alias()
    same = [known.c[name] == table.c[name] for name in key]
    connection.execute(
        delete(table).where(
            table.c.subscription == new, exists(select(1).select_from(known).where(known.c.subscription == old, *same))
        )
    )
    copied = select(literal(new), *(table.c[name] for name in names)).where(table.c.subscription == old)
    connection.execute(insert(table).from_select(["subscription", *names], copied))
