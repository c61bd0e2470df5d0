"""One DAG for each definition, and those by which a person clears, commits and resets.

A definition that is wrong has none here: `broken_subscriptions.py` beside this file shows what is wrong with it. The
words airflow and dag make Airflow look into this file.
"""

from tidegate_airflow import subscription_dags

globals().update(subscription_dags())
