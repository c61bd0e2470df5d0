"""Deserializers: what a batch's keys and values mean, by Spark's own functions and without a registry at hand."""
