"""Tidegate in Airflow: DAGs made of subscriptions, and operators that call the engine. Thin on purpose."""
