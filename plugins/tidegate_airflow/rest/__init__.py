"""Subscriptions by REST: routes in Airflow's API server, for definitions that are kept in the ledger's database."""
