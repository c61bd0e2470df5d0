"""The page in Airflow's UI: all subscriptions and each one, rendered by the API server."""
