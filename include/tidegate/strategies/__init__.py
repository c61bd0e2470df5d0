"""Strategies: when offsets are committed, and what becomes of records that can't be processed."""
