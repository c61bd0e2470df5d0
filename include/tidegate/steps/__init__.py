"""The steps of a run, and what a person has done to a subscription: functions of a `Context` (context.py).

Each finds out by itself what is already done, so that any of them may be repeated.

* **plan**: plan.py, over observe.py (what there is), decide.py (what to do about it, pure) and act.py (doing it).
  What it asks: selection.py (which partitions, and how far), starts.py and anchor.py (where each begins), loss.py
  (positions whose records are gone), ownership.py (whose the group is). What it waits with: await_records.py,
  availability.py. What it ends with: freeze.py (the batch). preview.py decides the same, and does nothing.
* **land**: land.py, by read_and_land.py where no Spark lands.
* **process**: process.py, over verify_landed.py (what was landed is there), deliver.py (the job) and acknowledge.py
  (commits while it runs).
* **commit**: commit.py, over publish.py, retry_limit.py (a batch that failed too often) and records_to_produce.py (dead
  letters and retries). Behind it: sweep.py and withdraw.py take away what nobody needs.
* **a person**: ask.py, clear.py, reset_group.py, move_positions.py, reprocess.py over read_again.py, prune.py.
* **what several say**: absent_output.py, already_done.py, definition_changes.py, moved_output.py, produced_topics.py.
"""
