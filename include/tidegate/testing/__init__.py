"""Doubles of the ports in memory, for tests: the same contracts hold them and the real adapters."""
