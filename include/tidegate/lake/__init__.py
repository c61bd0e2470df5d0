"""The lake: staged deliveries, and publishing them.

* **By a rename**: parquet.py, over rename.py and published.py.
* **By a log**: log_lake.py over log_entries.py, for the logs of delta/, iceberg/ and object_store/, which have
  batch_rows.py and store_errors.py in common. lakes.py chooses by the output.
* **Staged output**: staging.py, staged_files.py, sealing.py; orphans.py is what late jobs left there.
* **Readers**: published_files.py.
"""
