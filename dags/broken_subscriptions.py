"""Holds no DAG: its import error in Airflow lists every problem of the definitions, with file and line.

Airflow ties an import error to a DAG file and withdraws all DAGs of that file. Raised here, and not in
`subscriptions.py` or `rest_subscriptions.py`, it withdraws none of those that are right.
"""

import os
from contextlib import suppress

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate_airflow.dag_factory import definitions, stored_definitions

settings = Settings.from_environment(os.environ)
problems = definitions(settings).problems
with suppress(TidegateError):  # a ledger that can't be asked, which the import error of `rest_subscriptions.py` tells
    problems += stored_definitions(settings).problems
if problems:
    raise DefinitionError(problems)
