"""The real steps, under a scheduler that stops them at every effect: what the promise is worth in the code as it is.

`exploration` tries every schedule within small bounds, `histories` one long history for each seed; `audit` holds
both against the promise.
"""
