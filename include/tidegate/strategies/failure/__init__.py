"""Failure strategies: what becomes of records that can't be processed? One file, one class, one strategy."""
