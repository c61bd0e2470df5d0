"""Parquet files and the file systems they lie on: the adapters of landing and lake."""
