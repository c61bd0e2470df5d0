"""The command line: `tidegate`."""
