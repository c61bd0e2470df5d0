"""Iceberg tables, by pyiceberg and without Spark.

* log.py is the adapter, over catalogs.py, tables.py, commit.py, files.py, schema.py, spark_types.py and errors.py.
* live_files.py and removal.py are for commits that take files out, upkeep.py for what nobody needs.
"""
