"""Delivery over HTTP: a request for each record, to addresses that are allowed."""
