-- The ledger's database, beside Airflow's: Postgres runs this once, on an empty volume.
CREATE DATABASE tidegate;
