"""The ledger: the SQL database of batches, ranges, deliveries and outcomes; what is open, and why.

* **Batches**: sql.py is the ledger that the steps know, by the pure rules.py and the rows of rows.py in tables.py.
  offsets.py keeps a group's positions for checkpoints, run_log.py what is known of runs, expired.py prunes.
* **What a person has done**: resets.py, replays.py, generations.py of reprocessing, redriven.py of dead letters;
  audit.py reads all of it. stored_definitions.py has definitions that aren't files.
* **Who has what**: holders.py, takeover.py by another subscription or cluster, removed.py without a definition.
* **For those who look**: observations.py, overview.py, totals.py, alerts.py, batch_record.py.
* **The database**: database.py, upsert.py, migrate.py over migrations/, backup.py.
"""
