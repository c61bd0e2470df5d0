"""One DAG for each definition that was stored by REST.

They are in the ledger's database. While it can't be asked, this file has an import error, and Airflow withdraws its
DAGs, which couldn't run; those of `subscriptions.py` stay.
"""

import os

from airflow.sdk import get_parsing_context

from tidegate.config.settings import Settings
from tidegate_airflow.dag_factory import definition, stored_definitions

settings = Settings.from_environment(os.environ)
only = get_parsing_context().dag_id  # a running task needs its own DAG and no other
globals().update({only: definition(only, settings)} if only else stored_definitions(settings).dags)
