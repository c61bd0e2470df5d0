"""What every store of definitions promises that aren't files."""

from collections.abc import Callable

import pytest

from tidegate.ledger.stored_definitions import SqlStoredDefinitions
from tidegate.model.errors import StaleError
from tidegate.ports import DefinitionState

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
TEXT, OTHER = '{"topics": ["a"]}', '{"topics": ["b"]}'
Open = Callable[[], SqlStoredDefinitions]


@pytest.fixture(params=["sqlite", POSTGRES])
def opened(request: pytest.FixtureRequest) -> Open:
    """The same store, as a process of its own opens it."""
    url = request.getfixturevalue("sqlite_ledger" if request.param == "sqlite" else "postgres_ledger")
    return lambda: SqlStoredDefinitions(url)


def test_what_is_added_is_there_for_everybody_as_it_was_asked_for(opened: Open) -> None:
    assert opened().all() == ()
    added = opened().add("orders", TEXT, {"id": "orders", "é": [1]}, "ada")
    assert opened().find("orders") == added
    assert opened().all() == (added,)
    assert (added.text, added.asked, added.revision, added.state, added.by) == (
        TEXT,
        {"id": "orders", "é": [1]},
        1,
        DefinitionState.ACTIVE,
        "ada",
    )
    assert opened().find("flights") is None


def test_a_name_is_taken_once(opened: Open) -> None:
    opened().add("orders", TEXT, {}, "ada")
    with pytest.raises(StaleError, match="subscription orders is there already: unsubscribe it first"):
        opened().add("orders", OTHER, {}, "bob")
    assert [each.text for each in opened().all()] == [TEXT]


def test_of_two_who_change_one_revision_the_second_is_told(opened: Open) -> None:
    opened().add("orders", TEXT, {}, "ada")
    changed = opened().replace("orders", OTHER, {"x": 1}, "bob", 1)
    assert (changed.text, changed.revision, changed.by) == (OTHER, 2, "bob")
    with pytest.raises(StaleError, match="is at revision 2, and not at 1: nothing was changed"):
        opened().replace("orders", TEXT, {}, "eve", 1)
    with pytest.raises(StaleError, match="flights isn't there"):
        opened().replace("flights", TEXT, {}, "eve", 1)


def test_only_what_was_drained_is_removed_and_its_name_is_free_again(opened: Open) -> None:
    opened().add("orders", TEXT, {}, "ada")
    with pytest.raises(StaleError, match="orders is active: unsubscribe it first"):
        opened().remove("orders", "bob")
    assert opened().drain("orders", "bob").state is DefinitionState.DRAINING
    assert opened().drain("orders", "eve").by == "bob"
    with pytest.raises(StaleError, match="there already"):
        opened().add("orders", TEXT, {}, "eve")
    opened().remove("orders", "tidegate")
    opened().remove("orders", "tidegate")
    assert opened().find("orders") is None
    assert opened().add("orders", TEXT, {}, "ada").revision == 1
    with pytest.raises(StaleError, match="there is no subscription flights"):
        opened().drain("flights", "eve")


def test_the_audit_trail_outlives_what_it_is_of(opened: Open) -> None:
    opened().add("orders", TEXT, {}, "ada")
    opened().replace("orders", OTHER, {}, "bob\0", 1)
    opened().drain("orders", "eve")
    opened().remove("orders", "tidegate")
    trail = opened().changes("orders")
    assert [(each.what, each.text) for each in trail] == [
        ("removed", None),
        ("unsubscribed", OTHER),
        ("changed", OTHER),
        ("subscribed", TEXT),
    ]
    assert [each.by.rstrip("\ufffd") for each in trail] == ["tidegate", "eve", "bob", "ada"]
    assert [each.at for each in trail] == sorted((each.at for each in trail), reverse=True)
    assert opened().changes("flights") == ()
