"""Chaos: numbered records flow while everything is killed at random instants, and an audit counts them in the lake."""
