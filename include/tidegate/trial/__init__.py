"""Deliveries of made-up records, for tests of definitions and transforms."""
