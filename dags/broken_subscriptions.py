"""Holds no DAG: its import error in Airflow lists every problem of the definitions, with file and line.

Airflow ties an import error to a DAG file and withdraws all DAGs of that file. Raised here, and not in
`subscriptions.py`, it withdraws none of those that are right.
"""

from tidegate_airflow import refuse_broken_definitions

refuse_broken_definitions()
