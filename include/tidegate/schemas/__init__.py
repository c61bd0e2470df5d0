"""Schemas: the wire format of records, and which schemas a delivery's records are to be read by."""
