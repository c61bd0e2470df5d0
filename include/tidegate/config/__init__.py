"""The definition of a subscription: its file read and checked, and what it may say described."""
