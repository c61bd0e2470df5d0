"""Holds no DAG: its import error in Airflow lists every problem of the definitions, with file and line.

Airflow ties an import error to a DAG file and withdraws all DAGs of that file. Raised here, and not in
`subscriptions.py`, it withdraws none of those that are right.
"""

import os

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate_airflow.dag_factory import definitions

if problems := definitions(Settings.from_environment(os.environ)).problems:
    raise DefinitionError(problems)
