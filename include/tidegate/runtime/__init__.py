"""The steps joined to the real adapters: one subscription's pipeline, its runs and its status."""
