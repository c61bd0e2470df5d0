"""The four verbs: plan, land, process, commit. Each finds out by itself what is already done."""
