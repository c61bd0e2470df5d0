"""Tests that share one real Airflow: as a package, whose fixtures pytest ends with its last test."""
