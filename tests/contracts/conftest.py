"""What the contract suites have of a real server in common."""

from collections.abc import Iterator

import pytest
from postgres import Postgres
from sqlalchemy import NullPool, create_engine, text

from tidegate.ledger.tables import ledger, metadata

_OTHERS = """\
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_FROM_ONE = "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) FROM pg_sequences"


@pytest.fixture(scope="session")
def emptied_ledger(postgres: Postgres, ledger_template: str) -> str:
    """The URL of this worker's ledger in a real PostgreSQL, which each test finds without batches."""
    return postgres.database(ledger_template)


@pytest.fixture
def postgres_ledger(emptied_ledger: str) -> Iterator[str]:
    """The same after the test: a database of each test's own takes half of the suite's time."""
    yield emptied_ledger
    with create_engine(emptied_ledger, poolclass=NullPool).begin() as connection:
        connection.execute(text(_OTHERS))
        for table in reversed(metadata.sorted_tables):
            if table is not ledger:  # which has the ledger's own id
                connection.execute(table.delete())
        connection.execute(text(_FROM_ONE))
