"""The definition of a subscription: its file read and checked, and what it may say described.

* **Properties**: property_table.py declares each once, by the types of property_types.py; json_schema.py and
  reference.py describe them. consumer_properties.py are Kafka's, foreign_properties.py other systems'.
* **One file read**: reading.py, over yaml_nodes.py and yaml_graph.py, sections.py and findings.py; airflow_defaults.py
  are a folder's. nearest.py guesses what was meant.
* **Rules within a definition**: rules.py, strategies.py, timeouts.py, output_rules.py, change_feed_rules.py.
* **Single values**: assign_seek.py, cron.py, deserializers.py, http_values.py, outputs.py, schemas.py, transforms.py,
  database_urls.py, plain_http.py, pasted_text.py.
* **All definitions**: check.py over drafts.py, group_checks.py, output_checks.py, callbacks.py and executors.py;
  holders.py says who has used already what only one may have.
* **The installation**: settings.py, unknown_variables.py, airflow_cfg.py, extras.py, installed.py, regular_files.py;
  module_search.py and importing.py for modules of users.
"""
