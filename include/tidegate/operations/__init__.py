"""What a person has done, by the command line or the page, beside what runs do of themselves.

* preview_document.py says what the next run would do; actions/ previews each action of the page.
* replay.py and reprocessing.py deliver again, into other_output.py or in place; dead_letters.py redrives.
* prune.py and maintain.py clean up, lost_output.py refuses where outputs aren't what the ledger says.
* reset_syntax.py reads what offsets are given as.
"""
