"""What `tidegate check` finds beside a definition itself, which is for `tidegate.config.check`.

connection_check.py asks the systems that definitions name; pools.py and other_dags.py ask Airflow; own_strategies.py
begins the failure strategies of other packages.
"""
