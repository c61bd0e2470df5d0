"""A real Kafka broker, Spark Connect server and Airflow on this machine, and sample data to run them with."""
