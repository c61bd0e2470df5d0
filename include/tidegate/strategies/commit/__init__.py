"""Commit strategies: when may a batch's offsets be committed? One file, one class, one strategy."""
