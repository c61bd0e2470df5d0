"""One DAG for each definition in the subscriptions folder.

A definition that is wrong has none here: `broken_subscriptions.py` beside this file shows what is wrong with it.
"""

import os

from airflow.sdk import get_parsing_context

from tidegate.config.settings import Settings
from tidegate_airflow.dag_factory import definition, definitions

settings = Settings.from_environment(os.environ)
only = get_parsing_context().dag_id  # a running task needs its own DAG and no other
globals().update({only: definition(only, settings)} if only else definitions(settings).dags)
