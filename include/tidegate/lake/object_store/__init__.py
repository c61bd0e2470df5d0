"""Plain Parquet on an object store, which has no rename.

log.py is the adapter, over calls.py; commits.py reads for whoever wants the files.
"""
