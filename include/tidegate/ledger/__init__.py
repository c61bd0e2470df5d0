"""The ledger: the SQL database of batches, ranges, deliveries and outcomes; what is open, and why."""
