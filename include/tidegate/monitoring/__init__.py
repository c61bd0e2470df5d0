"""How subscriptions stand, for whoever looks: command line, page, metrics and alerts. None of them is changed.

* **One**: status.py, by lag.py, moves.py and the verdicts of health.py; group_description.py, batch_document.py.
* **All**: observing.py looks at each, by side_by_side.py with a limit of time, and keeps what it saw; overview.py,
  trend.py, metrics.py over figures.py, and exposition.py read it.
* **Alerts**: alert_rules.py says what is told, alerts.py tells it once.
"""
