"""Runs the migrations in the transaction that `tidegate.ledger.migrate` has begun."""

from alembic import context

attributes = context.config.attributes
context.configure(connection=attributes["connection"], version_table=attributes["version_table"])
with context.begin_transaction():
    context.run_migrations()
