"""Security: what an Airflow connection to Kafka means to the client, and which of its values are secret."""
