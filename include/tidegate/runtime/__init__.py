"""The steps joined to the real adapters: how one subscription runs, and how runs wait.

* **To run**: pipeline.py joins a subscription's ports, of lakes.py, processor.py, connections.py and clock.py; run.py
  runs one batch, run_note.py says of it what Airflow's list of runs shows.
* **Definitions**: definitions.py has all of them, definition_values.py where their values are from.
* **Waiting outside of runs**: waiting.py and watching.py for records, record_schedule.py over backlog.py for runs.
* looks.py looks at several subscriptions at once; unmade_ledger.py says that the ledger isn't there.
"""
