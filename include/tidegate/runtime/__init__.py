"""The steps joined to the real adapters: one subscription's pipeline, and what is known of all subscriptions.

* **To run**: pipeline.py joins a subscription's ports, of lakes.py, processor.py, connections.py and clock.py; run.py
  runs one batch. definitions.py has all definitions, definition_values.py where their values are from.
* **Checks** beyond a definition: connection_check.py, other_dags.py, pools.py, own_strategies.py.
* **How a subscription stands**: status.py, by lag.py, moves.py and the verdicts of health.py; group_description.py,
  batch_document.py, preview_document.py, run_note.py.
* **How all stand**: observing.py looks, several at once by looks.py and side_by_side.py, and keeps what it saw;
  overview.py, trend.py, metrics.py over figures.py, and exposition.py read it. lost_output.py, unmade_ledger.py: what
  is missing.
* **Alerts**: alert_rules.py says what is told, alerts.py tells it once.
* **Waiting outside of runs**: waiting.py and watching.py for records, record_schedule.py over backlog.py for runs.
* **What a person has done**: replay.py, reprocessing.py, dead_letters.py, prune.py, maintain.py, other_output.py,
  reset_syntax.py; actions/ previews each.
"""
