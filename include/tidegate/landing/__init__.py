"""The landing: a batch as received."""
