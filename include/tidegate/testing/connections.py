"""Connections in memory."""

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection


class MemoryConnections:
    """The port `Connections` with what a test puts there."""

    def __init__(self, *connections: Connection) -> None:
        self._connections = {connection.id: connection for connection in connections}

    def get(self, connection_id: str) -> Connection:
        """See `tidegate.ports.Connections`."""
        if connection_id not in self._connections:
            raise WrongDefinitionError(f"there is no connection {connection_id}: give it to MemoryConnections")
        return self._connections[connection_id]
