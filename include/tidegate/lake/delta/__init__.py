"""Delta tables, by delta-rs and without Spark.

* log.py is the adapter, over table.py (calls and their errors), files.py, statistics.py, schema.py, types.py,
  protocol.py and location.py; history.py finds tables that were taken back.
* live_files.py, removal.py and removable.py are for commits that take files out, upkeep.py for what nobody needs.
"""
