"""What OpenLineage is told of a subscription's tasks, where its provider is installed and has a transport.

Nothing here but `events` imports the provider, and only the provider asks for that.
"""
